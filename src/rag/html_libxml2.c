/* SPDX-License-Identifier: MIT
 *
 * HTML through libxml2's parser, as events: no tree is built, nothing is loaded, no entity can grow.  The library is
 * loaded with the first document: with ICU behind it, it took every program longer to start than all others.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <libxml/HTMLparser.h>
#include <libxml/parserInternals.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/library.h"
#include "base/status.h"
#include "rag/charset.h"
#include "text/utf8.h"

#if LIBXML_VERSION < 21400
#define LIBRARY "libxml2.so.2"
#else
#define LIBRARY "libxml2.so.16"
#endif
#define XML_CALLS(X)                                                                                                   \
    X(xmlStopParser)                                                                                                   \
    X(xmlFindCharEncodingHandler)                                                                                      \
    X(xmlSwitchToEncoding)                                                                                             \
    X(xmlSetStructuredErrorFunc)                                                                                       \
    X(__xmlStructuredError)                                                                                            \
    X(__xmlStructuredErrorContext)                                                                                     \
    X(htmlCreateMemoryParserCtxt)                                                                                      \
    X(htmlCtxtUseOptions)                                                                                              \
    X(htmlParseDocument)                                                                                               \
    X(htmlFreeParserCtxt)
#define XML_CALL(name) __typeof__(name) *name;
#define XML_PLACE(name) {#name, offsetof(struct xml_calls, name), false},
struct xml_calls {
    XML_CALLS(XML_CALL)
};

enum {
    DEPTH_MAX = 512,   /* libxml2 walks its stack of open elements at each end tag: a bound on that product */
    HEAD_BYTES = 1024, /* where a charset is looked for, as browsers do */
    NAME_BYTES = 40,
    OUT_PER_IN = 4,
    OUT_MORE = 64 /* bytes of text per byte of HTML: one of Latin-1 becomes two, a heading's mark adds some */
};

struct reader {
    const struct xml_calls *xml;
    struct text *out;
    xmlParserCtxtPtr parser;
    size_t n_max;
    int depth, skip; /* open elements; of them, from the outermost whose text is nobody's */
    int pre;         /* open <pre> and <textarea> */
    int breaks;      /* line ends wanted before the next text */
    bool blank;      /* a blank wanted before it */
    bool too_deep;
};

/* What an element means for the text. */
struct element {
    const char *name;
    enum { SKIP = 1, BLOCK = 2, PARAGRAPH = 4, PRE = 8, LINE = 16 } what;
    const char *mark; /* written before its text */
};

static const struct element elements[] = {
    {"address", BLOCK, ""},
    {"article", PARAGRAPH, ""},
    {"aside", PARAGRAPH, ""},
    {"blockquote", PARAGRAPH, ""},
    {"br", LINE, ""},
    {"caption", BLOCK, ""},
    {"dd", BLOCK, ""},
    {"div", BLOCK, ""},
    {"dl", PARAGRAPH, ""},
    {"dt", BLOCK, ""},
    {"figcaption", BLOCK, ""},
    {"footer", PARAGRAPH, ""},
    {"form", BLOCK, ""},
    {"h1", PARAGRAPH, "# "},
    {"h2", PARAGRAPH, "## "},
    {"h3", PARAGRAPH, "### "},
    {"h4", PARAGRAPH, "#### "},
    {"h5", PARAGRAPH, "##### "},
    {"h6", PARAGRAPH, "###### "},
    {"header", PARAGRAPH, ""},
    {"hr", PARAGRAPH, ""},
    {"li", BLOCK, "- "},
    {"main", PARAGRAPH, ""},
    {"nav", PARAGRAPH, ""},
    {"noscript", SKIP, ""},
    {"object", SKIP, ""},
    {"ol", PARAGRAPH, ""},
    {"option", BLOCK, ""},
    {"p", PARAGRAPH, ""},
    {"pre", PARAGRAPH | PRE, ""},
    {"script", SKIP, ""},
    {"section", PARAGRAPH, ""},
    {"style", SKIP, ""},
    {"svg", SKIP, ""},
    {"table", PARAGRAPH, ""},
    {"td", LINE, ""},
    {"template", SKIP, ""},
    {"textarea", BLOCK | PRE, ""},
    {"th", LINE, ""},
    {"title", PARAGRAPH, ""},
    {"tr", BLOCK, ""},
    {"ul", PARAGRAPH, ""},
};

static const struct element *find_element(const xmlChar *name)
{
    size_t low = 0, high = sizeof elements / sizeof *elements;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp((const char *)name, elements[middle].name);
        if (order == 0) return &elements[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static void want_breaks(struct reader *r, const struct element *e)
{
    int n = e->what & PARAGRAPH ? 2 : e->what & BLOCK ? 1 : 0;
    if (r->breaks < n) r->breaks = n;
}

static void put_breaks(struct reader *r)
{
    if (r->out->n > 0)
        for (int i = 0; i < r->breaks; i++) text_add(r->out, "\n", 1);
    else
        r->blank = false;
    if (r->breaks == 0 && r->blank) text_add(r->out, " ", 1);
    r->breaks = 0;
    r->blank = false;
}

static void on_start(void *user, const xmlChar *name, const xmlChar **attributes)
{
    struct reader *r = user;
    (void)attributes;
    if (++r->depth > DEPTH_MAX) {
        r->too_deep = true;
        r->xml->xmlStopParser(r->parser);
        return;
    }
    const struct element *e = find_element(name);
    if (e && e->what & SKIP && !r->skip) r->skip = r->depth;
    if (!e || r->skip) return;
    want_breaks(r, e);
    if (e->what & LINE && strcmp(e->name, "br") == 0)
        r->breaks = r->breaks < 1 ? 1 : r->breaks;
    else if (e->what & LINE)
        r->blank = true; /* a cell of a table */
    if (e->mark[0]) {
        put_breaks(r);
        text_add(r->out, e->mark, strlen(e->mark));
    }
    if (e->what & PRE) r->pre++;
}

static void on_end(void *user, const xmlChar *name)
{
    struct reader *r = user;
    const struct element *e = find_element(name);
    if (r->skip && r->depth <= r->skip) r->skip = 0;
    if (r->depth > 0) r->depth--;
    if (!e || r->skip) return;
    want_breaks(r, e);
    if (e->what & PRE && r->pre > 0) r->pre--;
}

static void on_text(void *user, const xmlChar *text, int n)
{
    struct reader *r = user;
    const char *p = (const char *)text, *end = p + n;
    if (r->skip || r->out->n > r->n_max) return;
    if (r->pre) {
        put_breaks(r);
        text_add_utf8(r->out, p, (size_t)n);
        return;
    }
    while (p < end) {
        const char *word = p;
        while (p < end && !strchr(" \t\r\n\f", *p)) p++;
        if (p > word) {
            put_breaks(r);
            text_add_utf8(r->out, word, (size_t)(p - word));
        }
        r->blank = r->blank || p < end;
        while (p < end && strchr(" \t\r\n\f", *p)) p++;
    }
}

/* ---- characters ---- */

struct failure {
    bool encoding; /* bytes that the charset does not have: libxml2 ends the text there */
};

/* libxml2 would write to stderr. */
static void on_error(void *user, xmlErrorPtr e)
{
    struct failure *f = user;
    f->encoding = f->encoding || e->code == XML_I18N_CONV_FAILED || e->code == XML_IO_ENCODER;
}

/* The charset that the head of an HTML text names, where iconv knows it and it is not UTF-8; NULL = read it as
 * UTF-8. */
static xmlCharEncodingHandlerPtr declared_charset(
    const struct xml_calls *xml, const char *html, size_t n, char name[NAME_BYTES])
{
    static const char key[] = "charset=";
    size_t looked = n < HEAD_BYTES ? n : HEAD_BYTES;
    for (size_t i = 0; i + sizeof key < looked; i++) {
        if (strncasecmp(html + i, key, sizeof key - 1) != 0) continue;
        size_t at = i + sizeof key - 1, len = 0;
        if (html[at] == '"' || html[at] == '\'') at++;
        while (at + len < looked && len < NAME_BYTES - 1 &&
               (isalnum((unsigned char)html[at + len]) || strchr("-_", html[at + len])))
            len++;
        memcpy(name, html + at, len);
        name[len] = 0;
        return len && strcasecmp(name, "utf-8") != 0 && strcasecmp(name, "utf8") != 0
                   ? xml->xmlFindCharEncodingHandler(name)
                   : NULL;
    }
    return NULL;
}

static int parse(struct reader *r, const char *html, size_t n, xmlCharEncodingHandlerPtr charset)
{
    xmlSAXHandler events = {
        .startElement = on_start, .endElement = on_end, .characters = on_text, .ignorableWhitespace = on_text};
    htmlParserCtxtPtr parser = r->xml->htmlCreateMemoryParserCtxt(html, (int)n);
    if (!charset) charset = r->xml->xmlFindCharEncodingHandler("UTF-8");
    if (!parser) return -1;
    xmlSAXHandler *own = parser->sax;
    r->parser = parser;
    r->xml->htmlCtxtUseOptions(parser,
        HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET | HTML_PARSE_RECOVER | HTML_PARSE_IGNORE_ENC);
    parser->sax = &events;
    parser->userData = r;
    if (charset) r->xml->xmlSwitchToEncoding(parser, charset);
    r->xml->htmlParseDocument(parser);
    parser->sax = own;
    r->xml->htmlFreeParserCtxt(parser);
    return 0;
}

static int load(struct xml_calls *xml, const char *name, struct lutra_error *err)
{
    static const struct library_call all[] = {XML_CALLS(XML_PLACE)};
    const char *lacks;
    if (library_open(LIBRARY, all, sizeof all / sizeof *all, xml, &lacks)) return 0; /* it stays for the next one */
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: HTML is read by libxml2, which cannot be loaded: %s%s", name,
        lacks ? "it has no " : "", lacks ? lacks : dlerror());
}

int text_of_html(const char *name, const char *html, size_t n, struct text *out, struct lutra_error *err)
{
    if (n > INT_MAX) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: HTML of more than 2 GiB", name);
    if (n == 0) return 0;
    struct xml_calls xml;
    TRY(load(&xml, name, err));
    char charset_name[NAME_BYTES];
    struct text clean = {0};
    xmlCharEncodingHandlerPtr charset = NULL;
    if (text_utf8_valid(html, n) < n) { /* what is UTF-8 is read as such, whatever it says */
        charset = declared_charset(&xml, html, n, charset_name);
        if (!charset) charset_add(&clean, charset_guess(html, n), html, n);
    }
    if (clean.n) html = clean.bytes, n = clean.n;
    struct reader r = {.xml = &xml, .out = out, .n_max = n * OUT_PER_IN + OUT_MORE};
    struct failure failure = {0};
    xmlStructuredErrorFunc then = *xml.__xmlStructuredError(); /* of this thread */
    void *then_user = *xml.__xmlStructuredErrorContext();
    xml.xmlSetStructuredErrorFunc(&failure, on_error);
    int rc = clean.failed ? -1 : parse(&r, html, n, charset);
    xml.xmlSetStructuredErrorFunc(then_user, then);
    text_fini(&clean);
    if (rc < 0 || out->failed) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", name);
    if (r.too_deep)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: HTML elements nested more than %d deep", name, DEPTH_MAX);
    if (failure.encoding)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: HTML with bytes that its charset '%s' does not have", name,
            charset ? charset_name : "UTF-8");
    if (out->n > r.n_max) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: HTML that grows when it is read", name);
    return 0;
}
