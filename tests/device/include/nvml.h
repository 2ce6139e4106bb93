/* Stands before a file of this name that NVIDIA may have put elsewhere on the machine, so that nobody finds that one. */
#error "the emulated device has no NVML"
