/* SPDX-License-Identifier: MIT
 *
 * Words are found however they are spelt: compatibility forms, soft hyphens, accents, particles, scripts without
 * blanks, charsets.
 */
#include "rag_fixture.h"

#include <sqlite3.h>

#include "rag/charset.h"
#include "rag/query.h"
#include "rag/rag_impl.h"
#include "rag/words.h"
#include "text/utf8.h"

static void expect_folded(const char *text, const char *folded)
{
    struct text t = {0};
    text_add_folded(&t, text, strlen(text));
    assert_string_equal(t.bytes, folded);
    text_fini(&t);
}

static void spellings_fold_to_one(void **state)
{
    (void)state;
    expect_folded("Mixed CASE 42", "mixed case 42");
    expect_folded("Donau\u00ADdampf\u00ADschiff", "donaudampfschiff");
    expect_folded("zero\u200Bwidth \uFEFFjoin\u200Der", "zerowidth joiner");
    expect_folded("o\uFB03ce \uFB01nd", "office find");
    expect_folded("Cafe\u0301 caf\u00E9 CAF\u00C9", "cafe cafe cafe");
    expect_folded("\uFF21\uFF22\uFF23\uFF11 \u2460 \u338F", "abc1 1 kg");
    expect_folded("Stra\u00DFe", "strasse");
    expect_folded("\u0391\u03B8\u03AE\u03BD\u03B1\u03C2", "\u03B1\u03B8\u03B7\u03BD\u03B1\u03C3"); /* Greek */
    expect_folded("\u0401\u043B\u043A\u0430 \u0437\u0430\u0301\u043C\u043E\u043A",
        "\u0435\u043B\u043A\u0430 \u0437\u0430\u043C\u043E\u043A"); /* Russian */
    expect_folded("\u043C\u043E\u0439 \u043C\u043E\u0438\u0306", "\u043C\u043E\u0439 \u043C\u043E\u0439");
    expect_folded("\u05E9\u05C1\u05B8\u05DC\u05D5\u05B9\u05DD", "\u05E9\u05DC\u05D5\u05DD"); /* Hebrew points */
    expect_folded("\uFEB3\uFEFC\uFEE1 \u0633\u064E\u0644\u0640\u0640\u0627\u0645",
        "\u0633\u0644\u0627\u0645 \u0633\u0644\u0627\u0645");        /* Arabic forms, vowels, tatweel */
    expect_folded("\uFF76\uFF9E\uFF97\uFF7D", "\u30AC\u30E9\u30B9"); /* half-width kana */
    expect_folded("\u1112\u1161\u11AB", "\uD55C");                   /* jamo */
    expect_folded("\u0939\u093F\u0928\u094D\u0926\u0940", "\u0939\u093F\u0928\u094D\u0926\u0940"); /* Hindi stays */
    expect_folded("\u304C", "\u304C"); /* voiced kana stay */
}

/* For every character, alone and behind a letter. */
static void folding_twice_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t c = 1; c <= 0x10FFFF; c++) {
        char bytes[8] = "a";
        struct text once = {0}, twice = {0};
        if (c >= 0xD800 && c < 0xE000) continue;
        int n = 1 + text_utf8_put(c, bytes + 1);
        for (int from = 0; from < 2; from++) {
            once.n = twice.n = 0;
            text_add_folded(&once, bytes + from, (size_t)(n - from));
            text_add_folded(&twice, once.bytes ? once.bytes : "", once.n);
            if (once.n != twice.n || (once.n && memcmp(once.bytes, twice.bytes, once.n)))
                fail_msg("U+%04X folds to '%s', then to '%s'", c, once.bytes, twice.bytes);
        }
        text_fini(&once);
        text_fini(&twice);
    }
}

static void expect_query(const char *text, const char *phrases)
{
    struct query q;
    char got[512] = "";
    assert_true(query_read(&q, text, strlen(text)));
    for (int i = 0; i < q.n; i++) {
        strcat(got, i ? " " : "");
        strcat(got, q.text.bytes + q.phrase[i]);
    }
    assert_string_equal(got, phrases);
    query_fini(&q);
}

static void particles_are_not_looked_for(void **state)
{
    (void)state;
    expect_query("서울에서", "\"서울\"");
    expect_query("서울에서는 관리자에게", "\"서울\" \"관리\" \"리자\"");
    expect_query("집에서", "\"집\"");
    expect_query("도로 회의", "\"도로\" \"회의\""); /* nouns that end like particles */
    expect_query("에서", "\"에서\"");               /* nothing else was asked for */
    expect_query("기차입니까", "\"기차\"");
    expect_query("東京에서", "\"東京\"");
    expect_query("KTX에서 부산까지", "\"ktx\" \"부산\"");
}

/* ---- in a store ---- */

static void expect_found(lutra_store *s, const char *const *query, int n_expected)
{
    for (int i = 0; query[i]; i++)
        if (count_found(s, query[i]) != n_expected)
            fail_msg("'%s': %d found, not %d", query[i], count_found(s, query[i]), n_expected);
}

#define FOUND(s, n, ...) expect_found(s, (const char *const[]){__VA_ARGS__, NULL}, n)

static void korean_nouns_are_found_behind_particles(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "ko", "서울에서 부산까지 기차로 갑니다. 비밀번호를 재설정하려면 관리자에게 문의하세요.");
    add_text(s, "other", "대구에서는 버스만 다닙니다. 회의는 세 시에 시작합니다. 책상에게 물어보세요.");
    FOUND(s, 1, "서울", "부산", "기차", "관리자", "비밀번호", "재설정", "문의", "서울은", "부산에서", "기차가",
        "관리자입니까", "대구", "버스를", "회의", "비밀번호재설정", "비밀 번호");
    /* A particle in common is nothing in common. */
    FOUND(s, 0, "제주에서", "인천까지", "선생님에게", "광주입니다", "리관", "자리");
    lutra_store_close(&s);
}

static void scripts_are_found_in_all_their_spellings(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "forms", "Donau\u00ADdampf\u00ADschiff zero\u200Bwidth ligature o\uFB03ce");
    FOUND(s, 1, "office", "OFFICES", "o\uFB03ce", "Donaudampfschiff", "donau\u00ADdampfschiff", "zerowidth");
    add_text(s, "ja", "\uFF76\uFF92\uFF97は東京都の店で買えます。人々はりんごも食べる。");
    FOUND(s, 1, "カメラ", "ｶﾒﾗ", "東京", "買え", "りんご", "人々");
    FOUND(s, 0, "京東", "メカ");
    add_text(s, "th", "เด็กกินข้าวที่บ้าน น้ำเย็น");
    FOUND(s, 1, "ข้าว", "บ้าน", "กิน", "เด็ก", "น้ำ");
    FOUND(s, 0, "กัน", "นกิ", "ขา"); /* other vowels and tones */
    add_text(s, "ar", "\uFEB3\uFEFC\uFEE1 \u0643\u0650\u062A\u064E\u0627\u0628");
    FOUND(s, 1, "\u0633\u0644\u0627\u0645", "\u0643\u062A\u0627\u0628", "\u0643\u062A\u0640\u0640\u0627\u0628");
    add_text(s, "hi", "\u0939\u093F\u0928\u094D\u0926\u0940 \u0915\u093F\u0924\u093E\u092C");
    FOUND(s, 1, "\u0915\u093F\u0924\u093E\u092C", "\u0939\u093F\u0928\u094D\u0926\u0940");
    FOUND(s, 0, "\u0915\u0924\u092C", "\u0915\u0941\u0924\u092C"); /* consonants alone are another word */
    add_text(s, "el", "\u03B7 \u0391\u03B8\u03AE\u03BD\u03B1");
    FOUND(s, 1, "\u03B1\u03B8\u03B7\u03BD\u03B1", "\u0391\u0398\u0397\u039D\u0391");
    add_text(s, "ru", "\u0451\u043B\u043A\u0430 \u0443 \u0437\u0430\u0301\u043C\u043A\u0430");
    FOUND(s, 1, "\u0435\u043B\u043A\u0430", "\u0437\u0430\u043C\u043A\u0430");
    add_text(s, "tr", "\u0130stanbul na\u00EFve");
    FOUND(s, 1, "istanbul", "naive");
    struct lutra_error err = {0};
    OK(lutra_store_check(s, &err));
    lutra_store_close(&s);
}

/* ---- charsets ---- */

static enum lutra_added add_bytes(lutra_store *s, const char *name, const char *bytes, size_t n)
{
    struct lutra_error err = {0};
    enum lutra_added what;
    struct lutra_document d;
    lutra_document_init(&d, sizeof d);
    d.name = name;
    d.bytes = bytes;
    d.n_bytes = n;
    OK(lutra_store_add(s, &d, &what, &err));
    return what;
}

#define ADD(s, name, bytes) add_bytes(s, name, bytes, sizeof(bytes) - 1)

static void charsets_are_told_by_mark_and_validity(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    ADD(s, "latin1",
        "Der G\xE4rtner \xF6"
        "ffnet um neun.");
    FOUND(s, 1, "Gärtner", "öffnet", "gartner");
    ADD(s, "cp1252", "\x93Zo\xEB\x94 pays 5 \x80 \x96 na\xEFvely, \x8Alapeto");
    FOUND(s, 1, "Zoë", "Šlapeto", "naively");
    ADD(s, "utf16le", "\xFF\xFEK\0\xE4\0s\0e\0 \0=\xD8\0\xDE");
    FOUND(s, 1, "Käse");
    ADD(s, "utf16be", "\xFE\xFF\0B\0r\0\xF6\0t\0c\0h\0e\0n");
    FOUND(s, 1, "Brötchen");
    ADD(s, "utf32", "\xFF\xFE\0\0\xC5\xC7\0\0\x74\xC6\0\0");
    FOUND(s, 1, "쟅왴");
    ADD(s, "page.html", "\xFF\xFE<\0p\0>\0B\0r\0i\0e\0");
    ADD(s, "bom", "\xEF\xBB\xBFwortanfang");
    FOUND(s, 1, "wortanfang");
    ADD(s, "damaged", "ein kaputtes \xC3\xBC und \xFF noch \xC3\xA4 im pl\xC3\xB6tzlich");
    FOUND(s, 1, "plötzlich");
    assert_string_equal(lutra_text_charset("Der G\xE4rtner", 11), "windows-1252");
    assert_string_equal(lutra_text_charset("Der G\xC3\xA4rtner", 12), "UTF-8");
    assert_string_equal(lutra_text_charset("p\xE4\xE4t\xF6s s\xE4\xE4 y\xF6", 13), "windows-1252");
    struct lutra_document d;
    struct lutra_error err = {0};
    static const char cp1251[] = "\xCF\xF0\xE8\xE2\xE5\xF2, \xEC\xE8\xF0", sjis[] = "\x93\x8C\x8B\x9E\x82\xC9\x81\x42",
                      euckr[] = "\xBC\xAD\xBF\xEF \xB1\xE2\xC2\xF7 \xC1\xF6\xC7\xCF\xC3\xB6";
    const char *const other[] = {cp1251, sjis, euckr};
    for (int i = 0; i < 3; i++) {
        lutra_document_init(&d, sizeof d);
        d.name = "other.txt";
        d.bytes = other[i];
        d.n_bytes = strlen(other[i]);
        assert_int_equal(lutra_store_add(s, &d, NULL, &err), LUTRA_E_UNSUPPORTED);
        assert_non_null(strstr(err.what, "other.txt: not added: its charset is not known"));
    }
    lutra_store_close(&s);
}

/* Bytes of all kinds: no read beyond them, and UTF-8 comes out. */
static void any_bytes_become_utf8(void **state)
{
    (void)state;
    uint64_t x = 3;
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)round % 23;
        char *bytes = malloc(n + 1);
        for (size_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = (char)(x >> 56);
        }
        for (int c = CHARSET_UNKNOWN; c <= CHARSET_WINDOWS_1252; c++) {
            struct text t = {0};
            charset_guess(bytes, n);
            charset_add(&t, (enum charset)c, bytes, n);
            assert_int_equal(text_utf8_valid(t.bytes ? t.bytes : "", t.n), t.n);
            text_fini(&t);
        }
        free(bytes);
    }
}

/* ---- a store of before ---- */

static int old_create(void *user, const char **arg, int n_arg, Fts5Tokenizer **out)
{
    const char *wanted[] = {"unicode61"};
    fts5_api *fts = user;
    fts5_tokenizer porter;
    void *porter_user;
    (void)arg, (void)n_arg;
    fts->xFindTokenizer(fts, "porter", &porter_user, &porter);
    return porter.xCreate(porter_user, wanted, 1, out);
}

/* Gives the file the index that version 2 made. */
static void age_store(void)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    fts5_api *fts = NULL;
    fts5_tokenizer old;
    void *user;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &stmt, NULL);
    sqlite3_bind_pointer(stmt, 1, &fts, "fts5_api_ptr", NULL);
    sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    fts->xFindTokenizer(fts, "porter", &user, &old);
    old.xCreate = old_create;
    fts->xCreateTokenizer(fts, "lutra", fts, &old, NULL);
    assert_int_equal(
        sqlite3_exec(db, "INSERT INTO words(words) VALUES('rebuild'); PRAGMA user_version=2", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
}

static void an_older_store_is_brought_up_to_date(void **state)
{
    (void)state;
    struct lutra_error err = {0};
    lutra_store *s = open_store();
    add_text(s, "ko", "서울에서 부산까지 o\uFB03ce");
    lutra_store_close(&s);
    age_store();
    s = open_store();
    FOUND(s, 1, "서울", "부산", "office");
    OK(lutra_store_check(s, &err));
    lutra_store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_fold_to_one),
        cmocka_unit_test(folding_twice_changes_nothing),
        cmocka_unit_test(particles_are_not_looked_for),
        cmocka_unit_test_setup_teardown(korean_nouns_are_found_behind_particles, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(scripts_are_found_in_all_their_spellings, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(charsets_are_told_by_mark_and_validity, make_folder, drop_folder),
        cmocka_unit_test(any_bytes_become_utf8),
        cmocka_unit_test_setup_teardown(an_older_store_is_brought_up_to_date, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
