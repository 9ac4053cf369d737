// The calls that the Linux file makes are all there.
#include "platform/file_linux.c"
