// promise: outputs hold no earlier answer when a call begins
#include "kevolve.h"

extern "C" void writes_nothing(const VALUE *, VALUE *, int64_t, int64_t) {}
