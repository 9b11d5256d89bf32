/* SPDX-License-Identifier: MIT
 *
 * count_sorted FOLDER: prints how many of its matrices are sorted by group when they are read to be multiplied with, if
 * all of them have the values they have else.
 */
#include "hf/sorted_values.h"

int main(int argc, char **argv)
{
    int n = argc == 2 ? sorted_count(argv[1]) : -1;
    if (n >= 0) printf("%d\n", n);
    return n < 0;
}
