/* SPDX-License-Identifier: MIT
 *
 * The filter urlize: addresses in a text become links, its other characters entities.  A word is what stands between
 * spaces; brackets before it and brackets and points behind it are not of the address, unless they balance it.
 */
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"

struct link_style {
    struct jinja_value rel, target; /* escaped attributes, "" if none */
    struct jinja_value schemes;     /* a list of further beginnings of addresses */
    bool trims;
    int64_t limit; /* characters of an address that are shown */
};

static bool is_digit(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND;
}

/* Without case, as Python's patterns compare: four letters beyond ASCII are variants of i, s and k. */
static uint32_t fold(uint32_t cp)
{
    if (cp == 0x130 || cp == 0x131) return 'i';
    if (cp == 0x17F) return 's';
    if (cp == 0x212A) return 'k';
    return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

/* The bytes of s that are `what` without case; 0 if it does not begin so. */
static size_t begins(struct jinja_value s, const char *what)
{
    size_t at = 0;
    for (uint32_t cp; *what; what++) {
        if (at == s.n) return 0;
        at += jinja_char_at(s, at, &cp);
        if (fold(cp) != (unsigned char)*what) return 0;
    }
    return at;
}

static bool starts(struct jinja_value s, const char *what)
{
    size_t n = strlen(what);
    return s.n >= n && memcmp(s.s, what, n) == 0;
}

static struct jinja_value behind(struct jinja_value s, size_t at)
{
    return jinja_part(s, at, s.n - at);
}

/* The host at the beginning of s: letters, digits, _ % - and points. */
static struct jinja_value host_of(struct jinja_value s)
{
    size_t at = 0;
    uint32_t cp;
    for (size_t k; at < s.n; at += k) {
        k = jinja_char_at(s, at, &cp);
        if (!jinja_is_word_char(cp) && cp != '%' && cp != '-' && cp != '.') break;
    }
    return jinja_part(s, 0, at);
}

static bool is_last_label(struct jinja_value label, bool listed)
{
    static const char *const names[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    int n = 0;
    uint32_t cp;
    for (size_t i = 0; listed && i < sizeof names / sizeof *names; i++)
        if (label.n && begins(label, names[i]) == label.n) return true;
    if (listed) return false;
    size_t at = begins(label, "xn--");
    bool idna = at > 0;
    for (; at < label.n; n++) {
        at += jinja_char_at(label, at, &cp);
        if (idna ? cp == '-' : fold(cp) < 'a' || fold(cp) > 'z') return false;
    }
    return n >= 2 && n <= (idna ? 59 : 63);
}

/* Labels with points between them; `listed`: at least two, none too short, and the last is one of a few. */
static bool is_domain(struct jinja_value host, bool listed)
{
    size_t label = 0;
    int n = 0;
    uint32_t cp;
    for (size_t at = 0; at < host.n;) {
        at += jinja_char_at(host, at, &cp);
        n++;
        if (cp != '.') continue;
        if (n - 1 < (listed ? 2 : 1) || (listed && n - 1 > 63)) return false;
        label = at;
        n = 0;
    }
    return (label > 0 || !listed) && is_last_label(behind(host, label), listed);
}

static bool is_ipv4(struct jinja_value host)
{
    int n = 0, n_point = 0;
    uint32_t cp;
    for (size_t at = 0; at < host.n;) {
        at += jinja_char_at(host, at, &cp);
        if (cp == '.' ? n == 0 : !is_digit(cp) || n == 3) return false;
        n = cp == '.' ? 0 : n + 1;
        n_point += cp == '.';
    }
    return n_point == 3 && n > 0;
}

/* The bytes of "[...]" at the beginning of s: two groups of up to four digits with a colon behind them, then one to six
 * whose colon may be missing.  0 if it is none. */
static size_t ipv6_length(struct jinja_value s)
{
    int n_digit = 0, n_group = 0, n_colon = 0;
    uint32_t cp;
    if (!starts(s, "[")) return 0;
    for (size_t at = 1; at < s.n;) {
        at += jinja_char_at(s, at, &cp);
        bool digit = is_digit(cp) || (fold(cp) >= 'a' && fold(cp) <= 'f');
        if (digit && ++n_digit > 4) {
            if (n_colon < 2) return 0;
            n_group++;
            n_digit = 1;
        }
        if (cp == ']') return n_colon >= 2 && n_group + (n_digit > 0) <= 6 ? at : 0;
        if (!digit && cp != ':') return 0;
        if (digit) continue;
        n_group += n_colon >= 2;
        n_colon++;
        n_digit = 0;
    }
    return 0;
}

/* Whether s, which follows a host, is nothing, a port, or begins a path. */
static bool is_rest(struct jinja_value s)
{
    uint32_t cp;
    if (starts(s, ":")) {
        size_t at = 1, n = 0;
        for (size_t k; at < s.n && n < 5; at += k, n++) {
            k = jinja_char_at(s, at, &cp);
            if (!is_digit(cp)) break;
        }
        if (n == 0) return false;
        s = behind(s, at);
    }
    return s.n == 0 || strchr("/?#", s.s[0]);
}

static bool is_address(struct jinja_value s)
{
    size_t scheme = begins(s, "https://");
    if (!scheme) scheme = begins(s, "http://");
    size_t named = scheme ? scheme : begins(s, "www.");
    struct jinja_value host = host_of(behind(s, named));
    bool rest = is_rest(behind(s, named + host.n));
    if (named && rest && is_domain(host, false)) return true;
    if (scheme && rest && is_ipv4(host)) return true;
    size_t brackets = scheme ? ipv6_length(behind(s, scheme)) : 0;
    if (brackets && is_rest(behind(s, scheme + brackets))) return true;
    host = host_of(s);
    return is_domain(host, true) && is_rest(behind(s, host.n));
}

/* x@y.z */
static bool is_mail(struct jinja_value s)
{
    size_t at = 0, point = 0;
    uint32_t cp;
    for (size_t i = 0; i < s.n; i++) at = s.s[i] == '@' ? i : at;
    struct jinja_value host = behind(s, at + (at > 0));
    if (at == 0 || host.n == 0) return false;
    jinja_char_at(host, 0, &cp);
    if (!jinja_is_word_char(cp)) return false;
    for (size_t i = 0; i < host.n;) {
        size_t k = jinja_char_at(host, i, &cp);
        if (cp == '.') point = i;
        if (!jinja_is_word_char(cp) && cp != '.' && cp != '-') return false;
        i += k;
    }
    struct jinja_value last = behind(host, point + 1);
    return point > 0 && last.n > 0 && !memchr(last.s, '-', last.n);
}

/* Of s, from its end on, what is a closing bracket, a point, a comma or a line's end. */
static size_t tail_of(struct jinja_value s)
{
    size_t at = s.n;
    for (;;) {
        if (at > 0 && strchr(").,\n", s.s[at - 1]) && s.s[at - 1])
            at--;
        else if (at >= 4 && memcmp(s.s + at - 4, "&gt;", 4) == 0)
            at -= 4;
        else
            return at;
    }
}

static size_t head_of(struct jinja_value s)
{
    for (size_t at = 0;;) {
        struct jinja_value rest = behind(s, at);
        if (starts(rest, "("))
            at++;
        else if (starts(rest, "&lt;"))
            at += 4;
        else
            return at;
    }
}

static size_t count(struct jinja_value s, const char *what)
{
    size_t n = 0;
    for (size_t at = 0; at < s.n;) {
        bool hit = starts(behind(s, at), what);
        n += hit;
        at += hit ? strlen(what) : 1;
    }
    return n;
}

/* Moves `end` of an address into the tail, which reaches to s.n, until the brackets in front are balanced. */
static size_t balance(struct jinja_value s, size_t from, size_t end, const char *open, const char *close)
{
    size_t n_open = count(jinja_part(s, from, end - from), open);
    if (n_open <= count(jinja_part(s, from, end - from), close)) return end;
    for (size_t n = count(behind(s, end), close); n > 0 && n_open > 0; n--, n_open--) {
        while (!starts(behind(s, end), close)) end++;
        end += strlen(close);
    }
    return end;
}

/* The address as it is shown. */
static int put_shown(struct jinja_run *run, const struct link_style *style, struct jinja_value s)
{
    int64_t n, keep = style->limit;
    uint32_t cp;
    TRY(jinja_n_chars(run, s, &n));
    if (!style->trims || n <= keep) return jinja_str(run, s, &run->out);
    size_t at = 0;
    if (keep < 0) keep += n;
    for (; keep > 0 && at < s.n; keep--) at += jinja_char_at(s, at, &cp);
    TRY(jinja_str(run, jinja_part(s, 0, at), &run->out));
    return jinja_put(run, "...");
}

/* <a href="before address">: with the attributes of web addresses, or without. */
static int open_link(struct jinja_run *run, const struct link_style *style, const char *before, struct jinja_value s)
{
    TRY(jinja_put(run, "<a href=\""));
    TRY(jinja_put(run, before));
    TRY(jinja_str(run, s, &run->out));
    TRY(jinja_put(run, "\""));
    if (style) TRY(jinja_str(run, style->rel, &run->out));
    if (style) TRY(jinja_str(run, style->target, &run->out));
    return jinja_put(run, ">");
}

static int put_middle(struct jinja_run *run, const struct link_style *style, struct jinja_value s)
{
    bool mail = !starts(s, "www.") && s.n && s.s[0] != '@' && !memchr(s.s, ':', s.n) && is_mail(s), link = false;
    if (is_address(s)) {
        bool whole = starts(s, "https://") || starts(s, "http://");
        TRY(open_link(run, style, whole ? "" : "https://", s));
        TRY(put_shown(run, style, s));
        return jinja_put(run, "</a>");
    }
    if (mail || (starts(s, "mailto:") && is_mail(behind(s, 7)))) {
        TRY(open_link(run, NULL, mail ? "mailto:" : "", s));
        TRY(jinja_str(run, mail ? s : behind(s, 7), &run->out));
        return jinja_put(run, "</a>");
    }
    for (size_t i = 0; i < style->schemes.list->n && !link; i++) {
        struct jinja_value scheme = style->schemes.list->items[i];
        link = s.n > scheme.n && memcmp(s.s, scheme.s, scheme.n) == 0;
        TRY(jinja_step(run, scheme.n));
    }
    if (link) TRY(open_link(run, style, "", s));
    TRY(jinja_str(run, s, &run->out));
    return link ? jinja_put(run, "</a>") : 0;
}

static int put_word(struct jinja_run *run, const struct link_style *style, struct jinja_value word)
{
    size_t from = head_of(word), end = from + tail_of(behind(word, from));
    TRY(jinja_step(run, 8 * (size_t)word.n));
    end = balance(word, from, end, "(", ")");
    end = balance(word, from, end, "&lt;", "&gt;");
    TRY(jinja_str(run, jinja_part(word, 0, from), &run->out));
    TRY(put_middle(run, style, jinja_part(word, from, end - from)));
    return jinja_str(run, behind(word, end), &run->out);
}

/* ' name="value"', the value escaped. */
static int attribute(struct jinja_run *run, const char *name, struct jinja_value value, struct jinja_value *out)
{
    static const struct jinja_args none = {0};
    *out = jinja_view("", 0);
    if (!jinja_truth(value)) return 0;
    TRY(jinja_escape(run, value, &none, &value));
    size_t start = run->out.n;
    TRY(jinja_put(run, name));
    TRY(jinja_str(run, value, &run->out));
    TRY(jinja_put(run, "\""));
    return jinja_take(run, start, out);
}

/* The words of `words`, sorted, each once, with spaces between them. */
static int join_words(struct jinja_run *run, struct jinja_value words, struct jinja_value *out)
{
    struct jinja_pair *pairs = jinja_alloc(&run->heap, (words.n + 1) * sizeof *pairs);
    size_t n = 0, start = run->out.n;
    if (!pairs) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for sorting %u words", words.n);
    for (size_t at = 0, from, k; at < words.n;) {
        uint32_t cp;
        for (from = at; at < words.n; at += k) {
            k = jinja_char_at(words, at, &cp);
            if (jinja_is_space(cp)) break;
        }
        if (at > from) pairs[n++].key = jinja_part(words, from, at - from);
        if (at < words.n) at += k;
    }
    TRY(jinja_sort_pairs(run, pairs, pairs + n, n, false));
    for (size_t i = 0; i < n; i++) {
        if (i && jinja_same_text(pairs[i - 1].key, pairs[i].key)) continue;
        if (i) TRY(jinja_put(run, " "));
        TRY(jinja_str(run, pairs[i].key, &run->out));
    }
    return jinja_take(run, start, out);
}

static int read_rel(struct jinja_run *run, struct jinja_value rel, bool nofollow, struct jinja_value *out)
{
    struct jinja_value own = nofollow ? jinja_view("nofollow noopener ", 18) : jinja_view("noopener ", 9);
    if (!jinja_truth(rel)) rel = jinja_view("", 0);
    if (rel.kind != JINJA_STRING) return jinja_fail(run, LUTRA_E_FORMAT, "urlize: rel is no text");
    TRY(jinja_binary(run, '+', own, rel, &rel));
    TRY(join_words(run, rel, &rel));
    return attribute(run, " rel=\"", rel, out);
}

/* Two characters or more of [\w.+-], a colon, and up to two slashes. */
static bool is_scheme(struct jinja_value s)
{
    size_t at = 0, n = 0;
    uint32_t cp = 0;
    if (s.kind != JINJA_STRING) return false;
    for (size_t k; at < s.n; at += k, n++) {
        k = jinja_char_at(s, at, &cp);
        if (!jinja_is_word_char(cp) && !(cp < 0x80 && strchr(".+-", (int)cp))) break;
    }
    struct jinja_value end = behind(s, at);
    return n >= 2 && starts(end, ":") && end.n <= 3 && end.n - 1 == count(end, "/");
}

static int read_schemes(struct jinja_run *run, struct jinja_value given, struct jinja_value *out)
{
    const struct jinja_list *list;
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    if (given.kind == JINJA_MISSING || given.kind == JINJA_NONE) return 0;
    TRY(jinja_iterate(run, given, &list));
    for (size_t i = 0; i < list->n; i++) {
        if (!is_scheme(list->items[i])) return jinja_fail(run, LUTRA_E_FORMAT, "urlize: no scheme of addresses");
        TRY(jinja_list_add(run, out->list, list->items[i]));
    }
    return 0;
}

int jinja_urlize(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    static const struct jinja_args none = {0};
    struct jinja_value a[5];
    struct link_style style = {0};
    TRY(jinja_bind(run, "urlize", args, "trim_url_limit nofollow target rel extra_schemes", a));
    style.trims = a[0].kind != JINJA_MISSING && a[0].kind != JINJA_NONE;
    if (style.trims && !jinja_as_int(a[0], &style.limit))
        return jinja_fail(run, LUTRA_E_FORMAT, "urlize: the limit is an integer");
    TRY(read_rel(run, a[3], jinja_truth(a[1]), &style.rel));
    TRY(attribute(run, " target=\"", a[2], &style.target));
    TRY(read_schemes(run, a[4], &style.schemes));
    TRY(jinja_escape(run, self, &none, &self));
    size_t start = run->out.n;
    for (size_t at = 0, from, k = 0; at < self.n;) {
        uint32_t cp;
        for (from = at; at < self.n; at += k) {
            k = jinja_char_at(self, at, &cp);
            if (jinja_is_space(cp)) break;
        }
        TRY(put_word(run, &style, jinja_part(self, from, at - from)));
        if (at == self.n) break;
        TRY(jinja_str(run, jinja_part(self, at, k), &run->out));
        at += k;
    }
    return jinja_take(run, start, out);
}
