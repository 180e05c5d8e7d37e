#!/bin/bash
# A stand-in for the entrypoint of NVIDIA's images: the same lines in the same places, on stdout, and then the program.

bar=====================
printf '\n%s\n== TensorFlow ==\n%s\n\n' "${bar:0:16}" "${bar:0:16}"
printf 'NVIDIA Release %s (build %s)\n' "$NVIDIA_TENSORFLOW_VERSION" "$NVIDIA_BUILD_ID"
printf 'TensorFlow Version %s\n\n' "$TENSORFLOW_VERSION"
printf 'This is a stand-in for tests: TensorFlow for the CPU, no CUDA, not made by NVIDIA.\n'

if [ ! -e /dev/nvidiactl ]; then
    printf '\nWARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.\n'
    printf "   Use Docker with the NVIDIA Container Toolkit and '--gpus all' to start this container.\n"
fi

shm_kb=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $2 }')
if [ "${shm_kb:-0}" -le 65536 ]; then
    printf '\nNOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be\n'
    printf '   insufficient for TensorFlow.  NVIDIA recommends the use of the following flags:\n'
    printf '   docker run --gpus all --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 ...\n'
fi
printf '\n'

if [ $# -gt 0 ]; then
    exec "$@"
else
    exec bash
fi
