/* What stands before a function with loops that vector instructions speed up. */
#ifndef FEDMPI_EACH_CPU
#define FEDMPI_EACH_CPU

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__)
/* One build for any x86: the best of these is taken when the library is loaded. */
#define EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_CPU
#endif

#endif
