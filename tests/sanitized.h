/* SPDX-License-Identifier: MIT
 *
 * Whether this is a build under a sanitizer, where everything takes five to ten times as long: long tests then try
 * fewer cases.
 */
#ifndef LUTRA_TESTS_SANITIZED_H
#define LUTRA_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#endif
