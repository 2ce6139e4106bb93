/* Hides a file of this name that NVIDIA may have put elsewhere on the machine. */
#error "the emulated device has no cuBLASLt"
