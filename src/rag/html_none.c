/* SPDX-License-Identifier: MIT
 *
 * HTML in a build without libxml2.
 */
#include "base/status.h"
#include "rag/text.h"

int text_of_html(const char *name, const char *html, size_t n, struct text *out, struct lutra_error *err)
{
    (void)html, (void)n, (void)out;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: HTML: lutra was built without libxml2", name);
}
