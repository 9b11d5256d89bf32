/* SPDX-License-Identifier: MIT
 *
 * The program that judges for tests of verifiers (hostile_checker.h).  Small and without sanitizers: it is started
 * hundreds of times.
 */
#include "hostile_checker.h"

int main(int argc, char **argv)
{
    return checker_main(argc > 1 ? argv[1] : NULL);
}
