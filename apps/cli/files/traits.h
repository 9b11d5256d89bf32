/* SPDX-License-Identifier: MIT
 *
 * What `lutra profile --characterize` found, from lutra_characterize()'s JSON: as text, and as a picture.
 */
#ifndef LUTRA_CLI_FILES_TRAITS_H
#define LUTRA_CLI_FILES_TRAITS_H

/* To stdout.  0 or EXIT_FAILED. */
int traits_print(const char *json);

/* [HETERO Figures 1, 3, 4, 5], a panel each, as SVG.  0 or EXIT_FAILED with a message. */
int traits_draw(const char *json, const char *path);

#endif
