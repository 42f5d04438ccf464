/* sanitized.h - SANITIZED: 1 in programs that AddressSanitizer or ThreadSanitizer is compiled into.
 */
#ifndef NUMALLOC_TESTS_SUPPORT_SANITIZED_H
#define NUMALLOC_TESTS_SUPPORT_SANITIZED_H

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#elif defined __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

#endif
