# Sets KVRAIL_HAVE_CUDA, and with it KVRAIL_NVCC and KVRAIL_GPUS. CUDA's driver is loaded at run time; the
# toolkit's headers decide whether that code is compiled, and its nvcc whether there is a copy kernel.

set(toolkit_oldest 12.0)
string(TOUPPER "${KVRAIL_CUDA}" wanted)
if(NOT wanted MATCHES "^(AUTO|ON|OFF|TRUE|FALSE|YES|NO|1|0)$")
    message(FATAL_ERROR "KVRAIL_CUDA is '${KVRAIL_CUDA}'; allowed: AUTO, ON, OFF")
endif()

set(KVRAIL_HAVE_CUDA OFF)
if(wanted)
    find_package(CUDAToolkit ${toolkit_oldest} QUIET)
    set(KVRAIL_HAVE_CUDA ${CUDAToolkit_FOUND})
endif()

if(KVRAIL_HAVE_CUDA)
    message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION}")
    find_program(KVRAIL_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
    set(KVRAIL_GPUS) # what this nvcc knows of what is in use, and PTX for whatever comes after
    if(KVRAIL_NVCC)
        execute_process(COMMAND ${KVRAIL_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
        foreach(code IN ITEMS 80 90 100)
            if(known MATCHES "sm_${code}[^0-9]")
                list(APPEND KVRAIL_GPUS -gencode arch=compute_${code},code=sm_${code})
            endif()
        endforeach()
        list(APPEND KVRAIL_GPUS -gencode arch=compute_80,code=compute_80)
    else()
        message(STATUS "No nvcc: the copy kernel is left out, and the driver copies")
    endif()
elseif(NOT wanted)
    message(STATUS "CUDA: left out, because KVRAIL_CUDA is ${KVRAIL_CUDA}: host memory only")
else()
    if(NOT CUDAToolkit_VERSION)
        set(found "no CUDA toolkit was found: no nvcc in CUDAToolkit_ROOT, PATH, CUDA_PATH or /usr/local/cuda")
    elseif(CUDAToolkit_VERSION VERSION_LESS toolkit_oldest)
        set(found "the CUDA toolkit in ${CUDAToolkit_BIN_DIR} is ${CUDAToolkit_VERSION}")
    else()
        set(found "the CUDA toolkit ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR} lacks its headers or libcudart")
    endif()
    if(wanted STREQUAL "AUTO")
        message(STATUS "CUDA: ${found}; ${toolkit_oldest} or later is needed: GPU memory is left out "
            "(KVRAIL_CUDA=ON makes this an error)")
    else()
        message(FATAL_ERROR "KVRAIL_CUDA is ${KVRAIL_CUDA}, but ${found}. "
            "Version ${toolkit_oldest} or later is needed: set CUDAToolkit_ROOT to its folder, "
            "or KVRAIL_CUDA to AUTO or OFF to build without GPU memory.")
    endif()
endif()
