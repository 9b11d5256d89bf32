/* SPDX-License-Identifier: MIT
 *
 * Mutated manifests of Ollama's and listings of a hub: a reader takes nothing that could lead out of a folder of
 * models, and its memory stays in proportion to the text.  Before that, SHA-256 against the examples of FIPS 180-4.
 *
 *     fuzz_models                20,000 inputs from number 1
 *     fuzz_models --long         the 100,000 behind them
 *     fuzz_models N [FIRST]      inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include "fuzz/fuzz.h"
#include "models/hub.h"
#include "models/ollama.h"
#include "models/sha.h"

enum { MOST = 4096 };

static const char *const seed[] = {
    "{\"schemaVersion\":2,\"mediaType\":\"m\",\"config\":{\"digest\":\"sha256:00\"},\"layers\":[{\"mediaType\":"
    "\"application/vnd.ollama.image.template\",\"digest\":\"sha256:11\",\"size\":5},{\"mediaType\":"
    "\"application/vnd.ollama.image.model\",\"digest\":"
    "\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":4661211808}]}",
    "[{\"type\":\"directory\",\"path\":\"sub\"},{\"type\":\"file\",\"path\":\"sub/"
    "a-Q4_K_M-00001-of-00002.gguf\",\"size\":7,"
    "\"oid\":\"0123456789abcdef0123456789abcdef01234567\",\"lfs\":{\"oid\":"
    "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":7,\"pointerSize\":134}},"
    "{\"type\":\"file\",\"path\":\"README.md\",\"size\":3}]",
    "{\"id\":\"a/b\",\"sha\":\"0123456789abcdef0123456789abcdef01234567\",\"siblings\":[{\"rfilename\":\"x.gguf\"}]}",
};
enum { N_SEED = sizeof seed / sizeof *seed };

static size_t mutate(uint64_t *dice, const char *from, char *text)
{
    static const char *const word[] = {"../", "/", "..", "\\", "\"", "[", "]", "{", "}", ",", ":", "null", "-1",
        "1e999", "\\u0000", "\\u002e\\u002e/", "sha256:", "\xff", "99999999999999999999", "A", "00001-of-99999"};
    size_t n = strlen(from);
    memcpy(text, from, n);
    for (uint64_t k = 1 + fuzz_roll(dice) % 4; k > 0; k--) {
        size_t at = fuzz_roll(dice) % (n + 1), cut = fuzz_roll(dice) % 3 ? fuzz_roll(dice) % 8 : 0;
        const char *put = word[fuzz_roll(dice) % (sizeof word / sizeof *word)];
        if (cut > n - at) cut = n - at;
        if (fuzz_roll(dice) % 4 == 0) put = "";
        if (n - cut + strlen(put) > MOST) continue;
        memmove(text + at + strlen(put), text + at + cut, n - at - cut);
        memcpy(text + at, put, strlen(put));
        n = n - cut + strlen(put);
    }
    return n;
}

static void check_hex(const char *text, size_t n)
{
    if (strlen(text) != n || strspn(text, "0123456789abcdef") != n) fuzz_fail("a digest that is none was taken");
}

static void check_path(const char *path)
{
    char slashes[HUB_PATH + 3];
    if (strlen(path) > HUB_PATH) fuzz_fail("a path too long was taken");
    snprintf(slashes, sizeof slashes, "/%s/", path);
    if (strstr(slashes, "/../") || strstr(slashes, "/./") || strstr(slashes, "//"))
        fuzz_fail("a path that leaves was taken");
}

/* How many readers took the text. */
static int read_all(const char *text, size_t n)
{
    char digest[OLLAMA_DIGEST + 1], commit[41];
    struct hub_file *file;
    int taken = 0;
    if (!ollama_read_manifest(text, n, digest)) check_hex(digest, OLLAMA_DIGEST), taken++;
    if (hub_read_commit(text, n, commit)) check_hex(commit, 40), taken++;
    int n_file = hub_read_tree(text, n, &file);
    taken += n_file > 0;
    for (int i = 0; i < n_file; i++) {
        check_path(file[i].path);
        check_hex(file[i].sum, strlen(file[i].sum) == SHA_1 ? SHA_1 : SHA_256);
        if (file[i].n_bytes == 0 || file[i].n_bytes > INT64_MAX) fuzz_fail("a size that is none was taken");
        free(file[i].path);
    }
    free(file);
    return taken;
}

/* In one piece, and in pieces of any size. */
static void check_sha(enum sha_kind kind, const char *text, size_t times, const char *want)
{
    char hex[SHA_256 + 1];
    for (size_t piece = 1; piece < 200; piece += 7) {
        struct sha h;
        size_t n = strlen(text) * times;
        char *all = malloc(n + 1);
        if (!all) fuzz_fail("no memory");
        for (size_t i = 0; i < times; i++) memcpy(all + i * strlen(text), text, strlen(text) + 1);
        sha_begin(&h, kind);
        for (size_t at = 0; at < n; at += piece) sha_add(&h, all + at, piece < n - at ? piece : n - at);
        sha_end(&h, hex);
        free(all);
        if (strcmp(hex, want) != 0) fuzz_fail("SHA");
    }
}

int main(int argc, char **argv)
{
    struct fuzz_inputs in = fuzz_begin(argc, argv, 20000, 100000);
    int taken = 0;
    check_sha(SHA_256, "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha(SHA_1, "", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check_sha(SHA_1, "abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check_sha(SHA_256, "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha(SHA_256, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha(SHA_256, "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for (int i = 0; i < N_SEED; i++)
        if (read_all(seed[i], strlen(seed[i])) != 1) fuzz_fail("a good text was not taken");
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        uint64_t dice = fuzz_input;
        char *text = malloc(MOST + 64);
        if (!text) fuzz_fail("no memory");
        size_t bytes = mutate(&dice, seed[fuzz_input % N_SEED], text);
        char *exact = realloc(text, bytes ? bytes : 1); /* a byte read behind it is seen */
        taken += read_all(exact ? exact : text, bytes);
        free(exact ? exact : text);
    }
    printf("%llu inputs, %d of them taken\n", (unsigned long long)in.n, taken);
    return fuzz_end(in, taken > 0);
}
