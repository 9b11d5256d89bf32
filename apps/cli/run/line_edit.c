/* SPDX-License-Identifier: MIT
 *
 * libedit does the editing; what reaches it is read here, so that
 * - a bracketed paste (ESC [200~ ... ESC [201~) is inserted in one go, line ends and all;
 * - every other sequence that a terminal sends is either a key of the table below or swallowed whole;
 * - Ctrl-C, a new window size and coming back from Ctrl-Z are noticed.
 */
#include "run/line.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

/* A key sends its sequence at once: a longer silence ends what is not one. */
enum { SEQUENCE_MS = 300, SEQUENCE_MAX = 16, HISTORY_MAX = 1000 };

/* A paste without its end mark is over after this silence; a line end with half of it on either side is Enter. */
enum { PASTE_MS = 1000, ENTER_MS = 100 };

#define PASTE_END L"\033[201~"

struct line_editor {
    EditLine *edit;
    History *past;
    const char *history;
    bool color;
    int patience_ms; /* how long to wait for a byte; -1 = for ever */
    bool timed_out;  /* that was too short */
    bool dropped;    /* Ctrl-C on a line that was not empty */
};

static const int noticed[] = {SIGINT, SIGTERM, SIGWINCH, SIGCONT};

static volatile sig_atomic_t screen_changed;

static void on_screen(int signal_number)
{
    (void)signal_number;
    screen_changed = 1;
}

static struct line_editor *editor_of(EditLine *edit)
{
    struct line_editor *e = NULL;
    el_get(edit, EL_CLIENTDATA, &e);
    return e;
}

static bool line_is_empty(EditLine *edit)
{
    const LineInfoW *line = el_wline(edit);
    return line->lastchar == line->buffer;
}

static void mark_pastes(bool on)
{
    fputs(on ? "\033[?2004h" : "\033[?2004l\033[0m", stdout);
    fflush(stdout);
}

/* The shell has changed the terminal, which libedit does not see, or the window has another size. */
static void draw_again(struct line_editor *e)
{
    screen_changed = 0;
    el_set(e->edit, EL_PREP_TERM, 0);
    el_set(e->edit, EL_PREP_TERM, 1);
    mark_pastes(true);
    el_resize(e->edit);
    el_set(e->edit, EL_REFRESH);
}

/* Waits for input as poll() does, and lets signals in only while it waits. */
static int wait_for_input(int ms, const sigset_t *let_in)
{
    fd_set in;
    FD_ZERO(&in);
    FD_SET(STDIN_FILENO, &in);
    struct timespec patience = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return pselect(STDIN_FILENO + 1, &in, NULL, NULL, ms < 0 ? NULL : &patience, let_in);
}

static int read_held(struct line_editor *e, unsigned char *byte, const sigset_t *let_in)
{
    for (;;) {
        if (interrupted()) {
            e->dropped = !line_is_empty(e->edit);
            return 0;
        }
        if (screen_changed) draw_again(e);
        int ready = wait_for_input(e->patience_ms, let_in);
        if (ready < 0 && errno == EINTR) continue;
        e->timed_out = ready == 0;
        ssize_t n = ready > 0 ? read(STDIN_FILENO, byte, 1) : 0;
        return n > 0 ? 1 : 0;
    }
}

/* One byte; 0 at the end of input, after Ctrl-C, or when a sequence goes on no longer.  The signals are held while
 * their flags are looked at: one that came between the look and the wait would be noticed at the next key only. */
static int read_byte(struct line_editor *e, unsigned char *byte)
{
    sigset_t held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof noticed / sizeof noticed[0]; i++) sigaddset(&held, noticed[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    int n = read_held(e, byte, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

/* libedit's source of characters.  Bytes that are not UTF-8 become U+FFFD. */
static int read_character(EditLine *edit, wchar_t *out)
{
    struct line_editor *e = editor_of(edit);
    unsigned char byte;
    mbstate_t state = {0};
    for (;;) {
        if (read_byte(e, &byte) <= 0) return 0;
        size_t n = mbrtowc(out, (const char *)&byte, 1, &state);
        if (n == (size_t)-2) continue;
        if (n == (size_t)-1) *out = 0xfffd;
        return 1;
    }
}

static bool ends_with(const wchar_t *text, size_t n, const wchar_t *end, size_t n_end)
{
    return n >= n_end && wmemcmp(text + n - n_end, end, n_end) == 0;
}

static bool is_silent(int ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, ms) == 0;
}

/* Up to the end mark, whatever comes; the editor takes it as one insertion.  A terminal that is cut off sends no mark:
 * what is typed afterwards is no paste. */
static unsigned char take_paste(EditLine *edit)
{
    struct line_editor *e = editor_of(edit);
    wchar_t *text = NULL, c;
    size_t n = 0, room = 0, n_mark = wcslen(PASTE_END);
    bool enter = false, typed = false;
    e->patience_ms = PASTE_MS;
    while (!enter && !ends_with(text, n, PASTE_END, n_mark)) {
        if (n > 0) typed = is_silent(ENTER_MS);
        if (el_wgetc(edit, &c) != 1) break;
        enter = typed && (c == '\r' || c == '\n') && is_silent(ENTER_MS);
        if (n + 2 > room) text = grow_memory(text, (room = room * 2 + 4096) * sizeof *text);
        if (!enter) text[n++] = c;
    }
    bool whole = ends_with(text, n, PASTE_END, n_mark), goes_on = whole || enter || e->timed_out;
    size_t kept = 0;
    e->patience_ms = -1;
    if (enter) el_wpush(edit, L"\r");
    if (whole) n -= n_mark;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') continue;
        if (text[i] == '\r') text[i] = '\n'; /* terminals send line ends as Enter */
        if (text[i] == '\n' || text[i] == '\t' || text[i] >= ' ') text[kept++] = text[i];
    }
    if (kept > 0) {
        text[kept] = 0;
        el_winsertstr(edit, text);
    }
    free(text);
    return goes_on ? CC_REFRESH : CC_EOF;
}

/* ESC [ ... or ESC O ...: what follows it, and the keys of libedit's emacs map that do the same. */
static const struct {
    const char *sequence;
    const wchar_t *keys;
} key_table[] = {
    {"A", L"\020"}, {"B", L"\016"}, {"C", L"\006"}, {"D", L"\002"}, /* arrows */
    {"H", L"\001"}, {"1~", L"\001"}, {"7~", L"\001"},               /* Home */
    {"F", L"\005"}, {"4~", L"\005"}, {"8~", L"\005"},               /* End */
    {"1;5C", L"\033f"}, {"1;3C", L"\033f"}, {"5C", L"\033f"},       /* a word on */
    {"1;5D", L"\033b"}, {"1;3D", L"\033b"}, {"5D", L"\033b"},       /* a word back */
};

static unsigned char act(EditLine *edit, const char *sequence)
{
    const LineInfoW *line = el_wline(edit);
    if (strcmp(sequence, "200~") == 0) return take_paste(edit);
    if (strcmp(sequence, "3~") == 0 && line->cursor < line->lastchar) el_wpush(edit, L"\004"); /* Delete */
    for (size_t i = 0; i < sizeof key_table / sizeof *key_table; i++)
        if (strcmp(sequence, key_table[i].sequence) == 0) el_wpush(edit, key_table[i].keys);
    return CC_NORM;
}

/* A control sequence: parameters, then one byte from @ to ~. */
static unsigned char on_control(EditLine *edit, int key)
{
    struct line_editor *e = editor_of(edit);
    char sequence[SEQUENCE_MAX] = "";
    size_t n = 0;
    wchar_t c;
    (void)key;
    e->patience_ms = SEQUENCE_MS;
    while (el_wgetc(edit, &c) == 1) {
        if (n + 1 < sizeof sequence && c < 0x7f) sequence[n++] = (char)c;
        if (c >= '@' && c <= '~') break;
    }
    e->patience_ms = -1;
    sequence[n] = 0;
    return act(edit, sequence);
}

/* An answer of the terminal (ESC ], P, ^, _ ...): up to BEL or ESC \. */
static unsigned char on_answer(EditLine *edit, int key)
{
    struct line_editor *e = editor_of(edit);
    wchar_t c = 0, last = 0;
    (void)key;
    e->patience_ms = SEQUENCE_MS;
    while (el_wgetc(edit, &c) == 1 && c != '\a' && !(last == 033 && c == '\\')) last = c;
    e->patience_ms = -1;
    return CC_NORM;
}

static unsigned char on_new_line(EditLine *edit, int key)
{
    (void)key;
    el_winsertstr(edit, L"\n");
    return CC_REFRESH;
}

static char *prompt(EditLine *edit)
{
    return editor_of(edit)->color ? "\1\033[1;32m\1> " : "> ";
}

static void add_past(void *ctx, const char *entry)
{
    struct line_editor *e = ctx;
    HistEvent event;
    history(e->past, &event, H_ENTER, entry);
}

static void bind_keys(EditLine *edit)
{
    /* a bare ^ would be half a control character to libedit */
    static const wchar_t *const answers[] = {L"\033]", L"\033P", L"\033\\^", L"\033_", L"\033X"};
    el_wset(edit, EL_ADDFN, L"lutra-control", L"a key's control sequence, or a paste", on_control);
    el_wset(edit, EL_ADDFN, L"lutra-answer", L"what the terminal says", on_answer);
    el_wset(edit, EL_ADDFN, L"lutra-new-line", L"a line end inside the message", on_new_line);
    el_wset(edit, EL_BIND, L"\033[", L"lutra-control", NULL);
    el_wset(edit, EL_BIND, L"\033O", L"lutra-control", NULL);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        el_wset(edit, EL_BIND, answers[i], L"lutra-answer", NULL);
    el_wset(edit, EL_BIND, L"\033\r", L"lutra-new-line", NULL);
    el_wset(edit, EL_BIND, L"\033\n", L"lutra-new-line", NULL);
    el_wset(edit, EL_BIND, L"^R", L"em-inc-search-prev", NULL);
    el_wset(edit, EL_BIND, L"^W", L"ed-delete-prev-word", NULL);
}

struct line_editor *line_open(const char *history_path, bool color)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !kind || !*kind || strcmp(kind, "dumb") == 0) return NULL;
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8"); /* models read nothing else */
    struct line_editor *e = get_memory(sizeof *e);
    *e = (struct line_editor){.history = history_path, .color = color, .patience_ms = -1};
    e->edit = el_init("lutra", stdin, stdout, stderr);
    e->past = history_init();
    if (!e->edit || !e->past) {
        line_close(&e);
        return NULL;
    }
    HistEvent event;
    history(e->past, &event, H_SETSIZE, HISTORY_MAX);
    history(e->past, &event, H_SETUNIQUE, 1);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_HIST, history, e->past);
    el_set(e->edit, EL_GETCFN, read_character);
    el_set(e->edit, EL_PROMPT_ESC, prompt, '\1');
    bind_keys(e->edit);
    if (e->history) history_load(e->history, add_past, e);
    return e;
}

void line_close(struct line_editor **editor)
{
    struct line_editor *e = *editor;
    if (!e) return;
    if (e->edit) el_end(e->edit);
    if (e->past) history_end(e->past);
    free(e);
    *editor = NULL;
}

/* While a line is edited pastes are marked, and changes of the window are seen. */
static void watch_screen(bool on)
{
    /* Restarted: an interrupted write would lose a part of the screen. poll() wakes up all the same. */
    struct sigaction action = {.sa_handler = on ? on_screen : SIG_DFL, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    mark_pastes(on);
}

bool line_read(struct line_editor *e, struct buffer *message)
{
    const char *text;
    int n = 0;
    buffer_clear(message);
    do {
        e->dropped = false;
        el_set(e->edit, EL_PREP_TERM, 1); /* first: until then the terminal keeps 4,095 bytes of a line */
        watch_screen(true);
        el_resize(e->edit);
        text = el_gets(e->edit, &n);
        watch_screen(false);
        if (text && n > 0) break;
        putchar('\n');
        if (!e->dropped) return false;
        interrupt_clear();
        el_reset(e->edit);
    } while (true);
    for (int i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' ? c != 0x7f : c == '\n' || c == '\t') buffer_add(message, &text[i], 1);
    }
    if (message->n_bytes && message->text[message->n_bytes - 1] == '\n') message->text[--message->n_bytes] = 0;
    if (message->text[strspn(message->text, " \t\n")]) {
        add_past(e, message->text);
        if (e->history) history_append(e->history, message->text);
    }
    return true;
}
