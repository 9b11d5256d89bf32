// SPDX-License-Identifier: MIT
//
// complete.c in C++: objects that close themselves, errors as exceptions, text by a lambda.
#include <lutra.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

template <typename T, auto close> struct closer {
    void operator()(T *p) const
    {
        close(&p);
    }
};
using runtime = std::unique_ptr<lutra_runtime, closer<lutra_runtime, lutra_runtime_close>>;
using model = std::unique_ptr<lutra_model, closer<lutra_model, lutra_model_close>>;
using session = std::unique_ptr<lutra_session, closer<lutra_session, lutra_session_close>>;

void check(int status, const lutra_error &err)
{
    if (status < 0) throw std::runtime_error(err.what);
}

// The model's chat template around a question, as tokens.
std::vector<std::int32_t> tokens_of(const lutra_model *m, const std::string &question)
{
    lutra_error err{};
    lutra_message message{};
    message.role = "user";
    message.content = question.c_str();
    lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message;
    chat.n_message = 1;
    int n;
    check(lutra_chat_tokenize(m, &chat, nullptr, 0, &n, &err), err);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
    check(lutra_chat_tokenize(m, &chat, tokens.data(), n, &n, &err), err);
    return tokens;
}

void answer(lutra_session *s, const std::vector<std::int32_t> &prompt)
{
    lutra_error err{};
    lutra_sampling sampling;
    lutra_request request;
    lutra_sampling_init(&sampling, sizeof sampling);
    lutra_request_init(&request, sizeof request);
    sampling.temperature = 0;
    request.prompt = prompt.data();
    request.n_prompt = static_cast<int>(prompt.size());
    request.max_tokens = 200;
    request.sampling = &sampling;
    request.on_text = [](void *, const lutra_piece *piece) {
        std::cout.write(piece->text, static_cast<std::streamsize>(piece->n_bytes)).flush();
        return 0;
    };
    check(lutra_generate(s, &request, &err), err);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::cerr << "usage: complete MODEL.gguf QUESTION\n";
        return 2;
    }
    try {
        lutra_error err{};
        lutra_runtime *rt;
        lutra_model *mo;
        lutra_session *se;
        check(lutra_runtime_open(&rt, nullptr, &err), err);
        runtime r(rt);
        check(lutra_model_open(&mo, rt, argv[1], nullptr, &err), err);
        model m(mo);
        check(lutra_session_open(&se, mo, nullptr, &err), err);
        session s(se);
        answer(se, tokens_of(mo, argv[2]));
        std::cout << '\n';
    } catch (const std::exception &e) {
        std::cerr << "complete: " << e.what() << '\n';
        return 1;
    }
}
