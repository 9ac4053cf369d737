#!/bin/sh
# Writes the PTX of this folder from its sources. It was last run with nvcc 13.0.
set -e
cd "$(dirname "$0")"
for arch in sm_75 sm_80 sm_90; do nvcc -ptx -arch=$arch kernels.cu -o kernels_$arch.ptx; done
nvcc -ptx -rdc=true -arch=sm_75 functions.cu -o functions_sm_75.ptx
nvcc -ptx -rdc=true -arch=sm_75 microkernels.cu -o microkernels_sm_75.ptx
nvcc -ptx -rdc=true -arch=sm_75 caller_kernels.cu -o caller_kernels_sm_75.ptx
nvcc -ptx -arch=sm_90 fixed.cu -o fixed_sm_90.ptx
nvcc -ptx -rdc=true -arch=sm_80 language.cu -o language_sm_80.ptx
nvcc -ptx -rdc=true -arch=sm_80 -lineinfo caller.cu -o caller_sm_80.ptx
nvcc -ptx -rdc=true -arch=sm_90 -lineinfo library.cu -o library_sm_90.ptx
sed -i 's|"/.*/|"|' caller_sm_80.ptx library_sm_90.ptx  # names of files, not of folders
nvcc -ptx -arch=sm_75 tiled.cu -o tiled_sm_75.ptx
nvcc -std=c++17 -ptx -arch=sm_80 engine.cu -o engine_sm_80.ptx
nvcc -std=c++17 -ptx -arch=sm_80 engine_wmma.cu -o engine_wmma_sm_80.ptx
