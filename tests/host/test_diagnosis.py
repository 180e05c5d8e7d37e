"""What engines really print, and what it is taken for. Each text is whole, so that no entry of the table may take
another one's."""

from __future__ import annotations

import pytest

from fleet.host.diagnosis import _ENGINE, _KNOWN, diagnose_engine, diagnose_launch

OCI = "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime"
HOOK = (
    f"{OCI} create failed: runc create failed: unable to start container process: error during container init: error"
    " running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n"
)
DAEMON = "Error response from daemon: "
REGISTRY = f'{DAEMON}Get "https://nvcr.io/v2/": '

LAUNCH = [
    ("toolkit_missing", f'docker: {DAEMON}could not select device driver "" with capabilities: [[gpu]].'),
    ("toolkit_missing", f'docker: {DAEMON}could not select device driver "nvidia" with capabilities: [[gpu]].'),
    ("toolkit_missing", f"docker: {DAEMON}failed to discover GPU vendor from CDI: no known GPU vendor found"),
    ("toolkit_not_registered", f"docker: {DAEMON}unknown or invalid runtime name: nvidia."),
    ("toolkit_not_registered", f"docker: {DAEMON}Unknown runtime specified nvidia."),
    ("driver_not_loaded", f"{HOOK}nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown."),
    ("driver_not_loaded", f"{HOOK}nvidia-container-cli: initialization error: driver rpc error: timed out: unknown."),
    (
        "driver_not_loaded",
        f"{HOOK}nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared"
        " object file: no such file or directory: unknown.",
    ),
    (
        "driver_mismatch",
        f"{HOOK}nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.",
    ),
    (
        "driver_too_old",
        f"{HOOK}nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver"
        " to a newer version, or use an earlier cuda container: unknown.",
    ),
    ("bad_gpu_index", f"{HOOK}nvidia-container-cli: device error: 7: unknown device: unknown."),
    (
        "cdi_spec_missing",
        f"docker: {DAEMON}CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all: unknown",
    ),
    (
        "cdi_spec_missing",
        f"{OCI} create failed: could not apply required modification to OCI specification: error modifying OCI spec:"
        " failed to inject CDI devices: unresolvable CDI devices runtime.nvidia.com/gpu=all: unknown",
    ),
    ("nvml_failed", "Failed to initialize NVML: Unknown Error"),
    ("nvml_failed", "Failed to initialize NVML: Insufficient Permissions"),
    (
        "image_not_found",
        f"{DAEMON}manifest for nvcr.io/nvidia/tensorflow:99.99-tf2-py3 not found: manifest unknown: manifest unknown",
    ),
    (
        "image_not_found",
        f"{DAEMON}pull access denied for no/such, repository does not exist or may require 'docker login': denied:"
        " requested access to the resource is denied",
    ),
    (
        "image_not_found",
        f'{DAEMON}failed to resolve reference "docker.io/library/alpine:no": docker.io/library/alpine:no: not found',
    ),
    ("registry_auth", f"{REGISTRY}unauthorized: authentication required"),
    ("registry_auth", f'{DAEMON}Head "https://ghcr.io/v2/some/image/manifests/latest": denied: denied'),
    ("registry_auth", f"{DAEMON}error from registry: denied\ndenied"),
    (
        "registry_auth",
        f'{DAEMON}failed to resolve reference "nvcr.io/nvidia/tensorflow:25.02-tf2-py3": failed to authorize: failed to'
        " fetch anonymous token: unexpected status from GET request to https://nvcr.io/proxy_auth: 401 Unauthorized",
    ),
    (
        "registry_auth",
        f"{DAEMON}unexpected status from HEAD request to https://nvcr.io/v2/x/manifests/1: 403 Forbidden",
    ),
    (
        "wrong_architecture",
        f"{DAEMON}no matching manifest for linux/arm64/v8 in the manifest list entries: no match for platform in"
        " manifest: not found",
    ),
    ("wrong_architecture", f"{DAEMON}no matching manifest for linux/amd64 in the manifest list entries"),
    ("wrong_architecture", "exec /opt/nvidia/nvidia_entrypoint.sh: exec format error"),
    (
        "rate_limited",
        f"{DAEMON}toomanyrequests: You have reached your unauthenticated pull rate limit."
        " https://www.docker.com/increase-rate-limit",
    ),
    (
        "disk_full",
        "failed to register layer: write /usr/lib/libcudnn.so: no space left on device\nsha256:401403429401 is left",
    ),
    (
        "ulimit_refused",
        f"{OCI} create failed: runc create failed: unable to start container process: error during container init:"
        " error setting rlimits for ready process: error setting rlimit type 8: operation not permitted: unknown.",
    ),
    ("ipc_refused", f"docker: {DAEMON}cannot join IPC of a non running container: deadbeef."),
    ("bad_arguments", "unknown flag: --no-such-flag\nSee 'docker run --help'."),
    ("bad_arguments", "unknown shorthand flag: 'z' in -z\nSee 'docker run --help'."),
    (
        "bad_arguments",
        "flag needs an argument: --cpus\n\nUsage:  docker run [OPTIONS] IMAGE\n\nRun 'docker run --help'",
    ),
    (
        "bad_arguments",
        "invalid argument \"much\" for \"--memory\" flag: invalid size: 'much'\nSee 'docker run --help'.",
    ),
    ("bad_arguments", "docker: invalid reference format: repository name must be lowercase."),
    (
        "mount_refused",
        f'docker: {DAEMON}invalid mount config for type "bind": bind source path does not exist: /home/u/.fleet/jobs.',
    ),
    (
        "mount_refused",
        f"docker: {DAEMON}error while creating mount source path '/home/u/.fleet': mkdir /home/u: permission denied.",
    ),
    (
        "no_python",
        f'{OCI} create failed: runc create failed: unable to start container process: exec: "python3": executable file'
        " not found in $PATH: unknown.",
    ),
    (
        "no_python",
        f'{OCI} create failed: runc create failed: unable to start container process: exec: "/usr/bin/python3": stat'
        " /usr/bin/python3: no such file or directory: unknown.",
    ),
    ("registry_network", f"{REGISTRY}x509: certificate signed by unknown authority"),
    ("registry_network", f"{REGISTRY}dial tcp: lookup nvcr.io on 127.0.0.53:53: server misbehaving"),
    ("registry_network", f"{REGISTRY}dial tcp: lookup nvcr.io: no such host"),
    ("registry_network", f"{REGISTRY}dial tcp 34.214.117.4:443: i/o timeout"),
    ("registry_network", f"{REGISTRY}net/http: TLS handshake timeout"),
    ("registry_network", f"{REGISTRY}proxyconnect tcp: dial tcp 10.0.0.1:3128: connect: connection refused"),
    ("registry_network", f'{DAEMON}Get "https://10.0.0.1:40100/v2/": http: server gave HTTP response to HTTPS client'),
    (
        "registry_network",
        f"{REGISTRY}net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting"
        " headers)",
    ),
    (
        "registry_network",
        f'{DAEMON}failed to resolve reference "nvcr.io/nvidia/tensorflow:25.02-tf2-py3": failed to authorize: failed to'
        ' fetch anonymous token: Get "https://nvcr.io/proxy_auth": dial tcp 34.214.117.4:443: i/o timeout',
    ),
    ("launch_failed", f'{OCI} create failed: exec: "python3": permission denied: unknown.'),
    ("launch_failed", "failed to register layer: lchown /etc/gshadow: invalid argument"),
    ("launch_failed", ""),
]

ENGINE = [
    (
        "docker_permission",
        "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock",
    ),
    (
        "docker_permission",
        "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock:"
        ' Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.24": dial unix /var/run/docker.sock: connect: permission denied',
    ),
    (
        "docker_not_running",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ),
    (
        "docker_not_running",
        "WARNING: Error loading config file: open /home/u/.docker/config.json: permission denied\n"
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ),
    (
        "docker_not_running",
        "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct and if the"
        " daemon is running: dial unix /var/run/docker.sock: connect: no such file or directory",
    ),
    (
        "docker_not_running",
        'error during connect: Get "http://10.0.0.5:2375/v1.24/version": dial tcp 10.0.0.5:2375: connect: connection'
        " refused",
    ),
    (
        "docker_failed",
        "Error response from daemon: client version 1.52 is too new. Maximum supported API version is 1.41",
    ),
]


@pytest.mark.parametrize(("reason", "said"), LAUNCH)
def test_why_a_container_did_not_start(reason: str, said: str) -> None:
    found, message, hint = diagnose_launch(said, "nvcr.io/x:1")

    assert found == reason, message
    assert hint.endswith(".")
    assert message.startswith("the engine did not start nvcr.io/x:1") == (reason == "launch_failed")


@pytest.mark.parametrize(("reason", "said"), ENGINE)
def test_why_an_engine_does_not_answer(reason: str, said: str) -> None:
    found, message, hint = diagnose_engine(said, "bench")

    assert found == reason, message
    assert hint.endswith(".")


def test_every_entry_of_the_tables_is_tried() -> None:
    assert {known.reason for known in _KNOWN} <= {reason for reason, _ in LAUNCH}
    assert {known.reason for known in _ENGINE} <= {reason for reason, _ in ENGINE}


def test_the_evidence_is_the_line_that_says_why_and_is_inert() -> None:
    _, message, _ = diagnose_launch("unknown flag: --x\x1b[2J\n\nSee 'docker run --help'.\n", "i")
    assert message == "docker does not understand an argument (unknown flag: --x\ufffd[2J)"

    _, message, _ = diagnose_launch("unknown flag: " + "x" * 5000, "i")
    assert len(message) < 400


def test_the_user_is_named() -> None:
    _, message, _ = diagnose_engine("connect: permission denied", "ben")
    assert message == "ben may not use docker (connect: permission denied)"
