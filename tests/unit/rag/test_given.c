/* SPDX-License-Identifier: MIT
 *
 * What an answer rests on, questions that follow others, passages that are too long.
 */
#include "rag_fixture.h"

#include "lutra/core.h"

static void expect_shared(lutra_store *s, const char *question, const char *answer, const char *name, const char *words)
{
    struct lutra_error err = {0};
    lutra_passages *p = find_text(s, question, 1000);
    bool seen = false;
    for (int i = 0; i < lutra_passages_count(p); i++) {
        char *got = NULL;
        if (strcmp(lutra_passages_at(p, i)->name, name)) continue;
        OK(lutra_passages_shared(s, p, i, question, strlen(question), answer, strlen(answer), &got, &err));
        assert_string_equal(got, words);
        lutra_free(got);
        seen = true;
    }
    assert_true(seen);
    lutra_passages_close(&p);
}

static void an_answer_shares_rare_words_and_numbers(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char name[20], text[100];
    add_text(s, "owls", "The warden counts owls at dusk in March, with a lantern, 42 of them last year.");
    add_text(s, "trains", "Trains leave for Tovar at 9 and at 17 from platform 4. Owls do not ride them.");
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "filler%d", i);
        snprintf(text, sizeof text, "Owls and year number %d of the warden and his lists.", i + 100);
        add_text(s, name, text);
    }
    const char *q = "How are owls counted at dusk?";
    expect_shared(s, q, "They are counted with a lantern; 42 were seen.", "owls", "lantern, 42");
    expect_shared(s, q, "They are counted with a lantern; 42 were seen.", "trains", "");
    expect_shared(s, q, "Owls are counted at dusk.", "owls", "");                       /* the question's own words */
    expect_shared(s, q, "The owl counts are made by drones every Friday.", "owls", ""); /* their ends do not matter */
    expect_shared(s, q, "The warden lists them each year.", "owls", "");                /* common words */
    expect_shared(s, q, "See [42] and [9].", "owls", "");                               /* that is a citation */
    expect_shared(s, "When do owls leave?", "To Tovar: 9, 17. Tovar!", "trains", "tovar, 9, 17");
    expect_shared(s, "owls", "LANTERNS of the dusk", "owls", "lanterns, dusk");
    expect_shared(s, "owls", "", "owls", "");
    lutra_store_close(&s);
    drop_folder(NULL);
    make_folder(NULL);
    s = open_store();
    add_text(s, "ko", "서울의 관리자는 김민수입니다.");
    add_text(s, "de", "Der Gärtner öffnet das Tor um 8 Uhr.");
    expect_shared(s, "관리자는 누구입니까", "김민수입니다", "ko", "김민, 민수");
    expect_shared(s, "Gärtner", "Der GARTNER o\u0308ffnet um 8.", "de", "offnet, 8");
    lutra_store_close(&s);
}

static void a_long_answer_is_looked_through(void **state)
{
    (void)state;
    struct lutra_error err = {0};
    lutra_store *s = open_store();
    add_text(s, "a", "The zwarna is a river in Kelm.");
    char *answer = malloc(300000), *words;
    memset(answer, 'x', 300000);
    for (int i = 7; i < 300000; i += 8) answer[i] = ' ';
    memcpy(answer + 299980, " zwarna ", 8);
    lutra_passages *p = find_text(s, "river", 1);
    OK(lutra_passages_shared(s, p, 0, "river", 5, answer, 300000, &words, &err));
    assert_string_equal(words, "zwarna");
    lutra_free(words);
    assert_int_equal(lutra_passages_shared(s, p, 1, "x", 1, "y", 1, &words, &err), LUTRA_E_ARGUMENT);
    lutra_passages_close(&p);
    lutra_store_close(&s);
    free(answer);
}

static void expect_first(lutra_store *s, const char *earlier, const char *question, const char *name)
{
    struct lutra_error err = {0};
    lutra_passages *p = NULL;
    OK(lutra_store_find_after(s, earlier, strlen(earlier), question, strlen(question), 1, &p, &err));
    assert_string_equal(lutra_passages_count(p) ? lutra_passages_at(p, 0)->name : "", name);
    lutra_passages_close(&p);
}

/* ---- very frequent words ---- */

static int count_asked(lutra_store *s, const char *earlier, const char *question)
{
    struct lutra_error err = {0};
    lutra_passages *p = NULL;
    OK(lutra_store_find_after(s, earlier, strlen(earlier), question, strlen(question), 100, &p, &err));
    int n = lutra_passages_count(p);
    lutra_passages_close(&p);
    return n;
}

/* Sentences with two places for what a document is about. */
static const struct language {
    const char *sentence[6];
    const char *nothing[4]; /* questions of its frequent words, alone or with words that no document has */
    const char *about;      /* %s: a subject */
} languages[] = {
    {{"The %s is what the others call a %s in the house.", "It is not how the %s of the town is made, and the %s was.",
         "What is the use of the %s, and is the %s in it?", "In the year of the %s there was a %s of the same kind.",
         "The %s is the first of the three, and the %s is the last.", "How is the %s in the %s when it is of the old?"},
        {"what is the", "What is the capital of Atlantis?", "How is it?", "Is it in the yqx?"}, "What is the %s?"},
    {{"Was die %s ist, das ist auch die %s in dem Haus.", "Es ist nicht wie die %s der Stadt, und die %s war es.",
         "Was ist der Nutzen der %s, und ist die %s in ihm?", "In dem Jahr der %s war die %s von der gleichen Art.",
         "Die %s ist die erste der drei, und die %s ist die letzte.",
         "Wie ist die %s in der %s, was sie in dem Alter?"},
        {"was ist die", "Was ist die Hauptstadt der Atlantis?", "Wie ist es?", "Ist die yqx in der?"},
        "Was ist die %s?"},
    {{"Что это за %s и как на это %s в доме.", "Это не то что %s в городе и на нём %s как есть.",
         "Что на это %s и что в нём %s?", "В том году %s и на это %s в роде.", "Как %s и что на нём %s в начале.",
         "Это и есть %s, как на нём %s в том?"},
        {"что это", "Что это в Атлантиде?", "как и что на это", "Это yqx?"}, "Что это за %s?"}};

/* A store about 40 subjects, one in each document, and one more, "lutralog", that gathers in most of them. */
static lutra_store *store_in(const struct language *l)
{
    lutra_store *s = open_store();
    for (int i = 0; i < 40; i++) {
        char name[16], subject[32], text[4000] = "";
        snprintf(name, sizeof name, "d%d", i);
        for (int k = 0, n = 0; k < 18; k++) {
            snprintf(subject, sizeof subject, "%s%c%c", k % 3 ? "zorb" : "quam", 'a' + i / 5, 'a' + i % 5);
            n += snprintf(
                text + n, sizeof text - (size_t)n, l->sentence[(k + i) % 6], subject, i % 3 ? "lutralog" : "vintel");
            n += snprintf(text + n, sizeof text - (size_t)n, "\n");
        }
        add_text(s, name, text);
    }
    return s;
}

static void frequent_words_find_nothing_in_three_languages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        const struct language *l = &languages[i];
        lutra_store *s = store_in(l);
        char question[100];
        for (int k = 0; k < 4; k++) {
            if (count_asked(s, "", l->nothing[k])) fail_msg("'%s' finds something", l->nothing[k]);
            assert_true(count_found(s, l->nothing[k]) > 16); /* a search lists them */
        }
        for (int k = 0; k < 40; k += 9) {
            char subject[32];
            snprintf(subject, sizeof subject, "zorb%c%c", 'a' + k / 5, 'a' + k % 5);
            snprintf(question, sizeof question, l->about, subject);
            int n = count_asked(s, "", question); /* its own document's chunks, no other's */
            if (n < 1 || n > 4) fail_msg("'%s' finds %d", question, n);
            assert_int_equal(count_asked(s, question, l->nothing[1]), n); /* a question that follows it */
        }
        snprintf(question, sizeof question, l->about, "lutralog"); /* frequent, but it gathers */
        assert_true(count_asked(s, "", question) > 16);
        lutra_store_close(&s);
        drop_folder(NULL);
        make_folder(NULL);
    }
}

static void a_small_store_judges_few_words(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    add_text(s, "a", "The owl is in the tree.");
    assert_int_equal(count_asked(s, "", "what is the owl"), 1);
    assert_int_equal(count_asked(s, "", "what is the"), 1);
    for (int i = 0; i < 15; i++) { /* all about one thing */
        char name[16], text[64];
        snprintf(name, sizeof name, "b%d", i);
        snprintf(text, sizeof text, "Cards in box %d.", i);
        add_text(s, name, text);
    }
    assert_int_equal(count_asked(s, "", "How many cards are in a box?"), 15);
    lutra_store_close(&s);
}

static void questions_that_follow_know_the_earlier_ones(void **state)
{
    (void)state;
    lutra_store *s = open_store();
    char name[20];
    for (int i = 0; i < 20; i++) { /* else half of the chunks have each word */
        snprintf(name, sizeof name, "other%d", i);
        add_text(s, name, "Nothing of interest.");
    }
    add_text(s, "owl-winter", "The tawny owl sleeps in hollow trees in winter.");
    add_text(s, "owl-food", "The tawny owl eats mice.");
    add_text(s, "bear-winter", "The bear sleeps in a cave in winter.");
    add_text(s, "train", "The train to Tovar leaves at nine.");
    assert_int_equal(count_found(s, "And what about it?"), 0);
    expect_first(s, "What does the tawny owl eat?", "And what about it?", "owl-food");
    expect_first(s, "What does the tawny owl eat?", "Where does it sleep in winter?", "owl-winter");
    expect_first(s, "Where does the bear sleep?", "And in winter?", "bear-winter");
    expect_first(
        s, "What does the tawny owl eat?", "When does the train to Tovar leave?", "train"); /* another subject */
    expect_first(s, "", "zzz", "");
    lutra_store_close(&s);
}

static void a_passage_is_cut_to_its_best_part(void **state)
{
    (void)state;
    struct lutra_error err = {0};
    struct lutra_store_settings set;
    lutra_store *s = NULL;
    char text[9000] = "", *at = text;
    lutra_store_settings_init(&set, sizeof set);
    set.chunk_bytes = 100000;
    OK(lutra_store_open(&s, store_path, &set, &err));
    for (int i = 0; i < 120; i++) at += sprintf(at, "Line %d is about nothing of interest here.\n", i);
    char *fact = strstr(text, "Line 80 ");
    memcpy(fact, "The HERON waits in the river.", 29);
    add_text(s, "long", text);
    for (size_t most = 2000; most >= 60; most /= 2) {
        lutra_passages *p = find_text(s, "where does the heron wait", 1);
        OK(lutra_passages_shorten(p, 0, most, "where does the heron wait", 25, &err));
        const struct lutra_passage *got = lutra_passages_at(p, 0);
        assert_true(got->n_bytes <= most && strlen(got->text) == got->n_bytes);
        assert_non_null(strstr(got->text, "HERON"));
        assert_int_equal(got->end - got->begin, got->n_bytes);
        assert_memory_equal(text + got->begin, got->text, got->n_bytes);
        assert_true(got->begin == 0 || text[got->begin - 1] == '\n' || text[got->begin - 1] == ' ');
        lutra_passages_close(&p);
    }
    lutra_passages *p = find_text(s, "heron", 1);
    OK(lutra_passages_shorten(p, 0, 100000, "x", 1, &err)); /* it fits */
    assert_int_equal(lutra_passages_at(p, 0)->n_bytes, strlen(text));
    assert_int_equal(lutra_passages_shorten(p, 1, 100, "x", 1, &err), LUTRA_E_ARGUMENT);
    lutra_passages_close(&p);
    lutra_store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_shares_rare_words_and_numbers, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_long_answer_is_looked_through, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(questions_that_follow_know_the_earlier_ones, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_passage_is_cut_to_its_best_part, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(frequent_words_find_nothing_in_three_languages, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_small_store_judges_few_words, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
