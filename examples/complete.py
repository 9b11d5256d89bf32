#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""complete.c through ctypes: the structs of lutra/generate.h as far as they are used.

usage: complete.py MODEL.gguf QUESTION      (LUTRA_LIBRARY names another liblutra.so.0)
"""
import os
import sys
from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_float, c_int, c_int32,
                    c_size_t, c_uint64, c_void_p, sizeof, string_at)


class Error(Structure):
    _fields_ = [("code", c_int), ("where", c_uint64), ("what", c_char * 480)]


class Message(Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("n_content", c_size_t)]


class Chat(Structure):
    _fields_ = [("size", c_size_t), ("messages", POINTER(Message)), ("n_message", c_int), ("json", c_char_p),
                ("n_json", c_size_t), ("chat_template", c_char_p), ("flags", c_int)]


class Sampling(Structure):
    """Its first fields: the library keeps to the size that it is given."""
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("temperature", c_float), ("top_k", c_int)]


class Piece(Structure):
    _fields_ = [("request", c_int32), ("sample", c_int), ("token", c_int32), ("log_prob", c_float),
                ("text", c_void_p), ("n_bytes", c_size_t)]


OnText = CFUNCTYPE(c_int, c_void_p, POINTER(Piece))


class Request(Structure):
    _fields_ = [("size", c_size_t), ("prompt", POINTER(c_int32)), ("n_prompt", c_int), ("n_samples", c_int),
                ("max_tokens", c_int), ("sampling", POINTER(Sampling)), ("stop", POINTER(c_char_p)), ("n_stop", c_int),
                ("ignore_end", c_bool), ("show_special", c_bool), ("timeout_us", c_uint64), ("on_text", OnText),
                ("on_end", c_void_p), ("user", c_void_p)]


lutra = CDLL(os.environ.get("LUTRA_LIBRARY", "liblutra.so.0"))


def call(function, *args):
    err = Error()
    if function(*args, byref(err)) < 0:
        sys.exit(f"complete.py: {err.what.decode()}")


def opened(function, *args):
    out = c_void_p()
    call(function, byref(out), *args)
    return out


def tokens_of(model, question):
    message, chat, n_tok = Message(b"user", question.encode()), Chat(), c_int()
    lutra.lutra_chat_init(byref(chat), c_size_t(sizeof(chat)))
    chat.messages, chat.n_message = POINTER(Message)(message), 1
    call(lutra.lutra_chat_tokenize, model, byref(chat), None, 0, byref(n_tok))
    tokens = (c_int32 * n_tok.value)()
    call(lutra.lutra_chat_tokenize, model, byref(chat), tokens, n_tok, byref(n_tok))
    return tokens, n_tok.value


@OnText
def print_piece(_, piece):
    sys.stdout.buffer.write(string_at(piece.contents.text, piece.contents.n_bytes))
    sys.stdout.flush()
    return 0


def main(path, question):
    runtime = opened(lutra.lutra_runtime_open, None)
    model = opened(lutra.lutra_model_open, runtime, path.encode(), None)
    session = opened(lutra.lutra_session_open, model, None)
    sampling, request = Sampling(), Request()
    lutra.lutra_sampling_init(byref(sampling), c_size_t(sizeof(sampling)))
    lutra.lutra_request_init(byref(request), c_size_t(sizeof(request)))
    sampling.temperature = 0
    request.prompt, request.n_prompt = tokens_of(model, question)
    request.max_tokens = 200
    request.sampling.contents = sampling
    request.on_text = print_piece
    call(lutra.lutra_generate, session, byref(request))
    print()
    lutra.lutra_session_close(byref(session))
    lutra.lutra_model_close(byref(model))
    lutra.lutra_runtime_close(byref(runtime))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
