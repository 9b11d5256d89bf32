/* SPDX-License-Identifier: MIT
 *
 * The packed cache: what devices made of a model's matrices, in a file that the next start maps instead of packing.
 *
 *     struct weights *packed;
 *     if (packed_open(&packed, path, model, err) == 0) ...
 *     const void *copy = packed_find(packed, "panel16x4.1", "blk.0.attn_q.weight", bytes, &sum);
 *     ...
 *     weights_close(&packed);
 *
 * The file is GGUF (docs/FORMATS.md), so the reader's and the writer's guarantees are its own: hostile sizes end in
 * gguf_read.c, and it appears whole or not at all.  A tensor is named LAYOUT/NAME: copies of one matrix for several
 * devices may lie side by side.  The file belongs to one model file: size, time of modification and a hash of the
 * header must be those of the model that it was packed from.  Each copy has a sum (hash_parts of base/hash.h): opening
 * does not read the copies, so whoever reads them compares.
 *
 * It is written in whole huge pages, which a page cache that keeps large folios maps as such.
 */
#ifndef LUTRA_WEIGHTS_PACKED_H
#define LUTRA_WEIGHTS_PACKED_H

#include "ops/device.h"
#include "weights/weights.h"

/* What tells one model file from another: a hash of size, time of modification and header. */
uint64_t packed_identity(const struct weights *model);

/* Maps the packed copy of `model`.  LUTRA_E_IO, LUTRA_E_FORMAT: as weights_open; LUTRA_E_UNSUPPORTED: well-formed, but
 * no packed copy, one of another version, or one of another model file; the text says which.  On failure *out is
 * NULL. */
int packed_open(struct weights **out, const char *path, const struct weights *model, struct lutra_error *err);

/* The copy of a tensor in a layout, `bytes` long and at the start of a page; NULL when there is none of that size.
 * Borrowed from the file.  *sum: what hash_parts of it must be. */
const void *packed_find(
    const struct weights *packed, const char *layout, const char *name, size_t bytes, uint64_t *sum);

/* Reads the whole file and compares every sum.  LUTRA_E_FORMAT names the first damaged tensor; others as packed_open,
 * but for the model, which is not looked at. */
int packed_check(const char *path, struct lutra_error *err);

/* Are all bytes between the copies zero, as they are written?  Damage there is no sum's; reads them. */
bool packed_gaps_clean(const struct weights *packed);

/* Whether the page cache maps the file in huge pages: judged by a few places in it, which are read. */
bool packed_in_huge_pages(const struct weights *packed);

/* Mapped copies are read by passes only, so the first opening of a file compares their sums, about a second per GB.
 * That it was good is noted beside it, with what changes when it is written to or replaced, and with the machine, in
 * words. */
bool packed_is_good(const struct weights *packed, const char *machine);
int packed_note_good(const struct weights *packed, const char *machine, struct lutra_error *err);

/* What a device makes of a weight, or has made.  False: nothing that a file could keep. */
bool packed_view_of(const struct weight *w, struct packed_view *out);

/* One copy to be written. */
struct packed_copy {
    const char *layout, *name;
    const void *data;
    size_t bytes; /* a multiple of 4 */
};

/* Writes the copies of `model` to `path`, which appears whole or not at all.  writer: who packed it, for people
 * ("lutra 0.1.0, avx512").  progress may be NULL; nonzero cancels.  Errors: as gguf_writer_commit,
 * LUTRA_E_CANCELLED. */
int packed_write(const char *path, const struct weights *model, const char *writer, const struct packed_copy *copy,
    size_t n_copy, int (*progress)(void *user, uint64_t done, uint64_t total), void *user, struct lutra_error *err);

#endif
