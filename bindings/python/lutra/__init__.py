# SPDX-License-Identifier: MIT
"""Lutra, an inference engine for language models in GGUF files, from Python.

    from lutra import Lutra
    llm = Lutra("model.gguf")
    print(llm.chat("What is the capital of France?"))

Everything here is a thin layer over liblutra.so.0; `lutra.abi` has all of its C interface for ctypes.
"""
import json
import os
import threading
from collections import deque
from ctypes import CDLL, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p, memmove, pointer, sizeof, string_at
from pathlib import Path

from . import _abi as abi

__all__ = ["Lutra", "LutraError", "Piece", "Reply", "SearchResult", "Verifier", "abi", "library"]


class LutraError(Exception):
    """What the library refused, in its words; `code` is a LUTRA_E_* of `lutra.abi`, `where` a place in the input."""

    def __init__(self, code, what, where=0):
        super().__init__(what)
        self.code, self.where = code, where


def _load():
    """The library that LUTRA_LIBRARY names, the one in this package, or the system's."""
    beside = Path(__file__).with_name("liblutra.so.0")
    name = os.environ.get("LUTRA_LIBRARY") or (str(beside) if beside.exists() else "liblutra.so.0")
    try:
        loaded = CDLL(name)
    except OSError as error:
        raise ImportError(f"the Lutra library cannot be loaded: {error}; LUTRA_LIBRARY may name another one") from None
    for function, (result, arguments) in abi.FUNCTIONS.items():
        try:
            getattr(loaded, function).restype, getattr(loaded, function).argtypes = result, arguments
        except AttributeError:
            raise ImportError(f"{name} is older than this package: it has no {function}") from None
    return loaded


library = _load()


def _call(function, *arguments):
    error = abi.lutra_error()
    if getattr(library, function)(*arguments, byref(error)) < 0:
        raise LutraError(error.code, error.what.decode(errors="replace"), error.where)


def _opened(function, *arguments):
    handle = c_void_p()
    _call(function, byref(handle), *arguments)
    return handle


def _struct(name, **fields):
    """A struct with the library's defaults, and then these fields."""
    made = getattr(abi, name)()
    getattr(library, f"{name}_init")(byref(made), sizeof(made))
    for key, value in fields.items():
        setattr(made, key, value.encode() if isinstance(value, str) else value)
    return made


def _fields(name):
    return {field[0] for field in getattr(abi, name)._fields_} - {"size"}


def _bytes(struct, field, n):
    """n bytes that a text of a struct has, NULs among them."""
    address = c_void_p.from_buffer(struct, getattr(type(struct), field).offset).value
    return string_at(address, n) if address else b""


def _strings(texts):
    return (c_char_p * len(texts))(*[t.encode() for t in texts])


def _constants(prefix):
    return {value: name[len(prefix):].lower() for name, value in vars(abi).items() if name.startswith(prefix)}


_STOPS = _constants("LUTRA_STOP_")
_METHODS = {name: value for value, name in _constants("LUTRA_SEARCH_").items()}
_PARTS = _constants("LUTRA_PART_")
_EVENTS = _constants("LUTRA_EVENT_")


class Piece:
    """A piece of a reply: `text`, `part` ("answer", "reasoning" or "mark"), `sample`, `token` (None: only text that
    was held back) and its log-probability `logprob`."""

    def __init__(self, piece):
        self.text = _bytes(piece, "text", piece.n_bytes).decode(errors="replace")
        self.part, self.sample = _PARTS[piece.part], piece.sample
        self.token = piece.token if piece.token >= 0 else None
        self.logprob = piece.log_prob if piece.token >= 0 else None

    def __str__(self):
        return self.text


class Reply:
    """What one sample said.  `finish` is why it ended: "end" (a token of the model), "string" (one of `stop`),
    "length", "ctx_full", "cancelled", "deadline" or "error"."""

    def __init__(self, sample):
        self.sample, self.text, self.reasoning = sample, "", ""
        self.tokens, self.logprobs = [], []
        self.finish, self.n_prompt, self.n_cached = None, 0, 0

    def add(self, piece):
        if piece.part == "answer":
            self.text += piece.text
        elif piece.part == "reasoning":
            self.reasoning += piece.text
        if piece.token is not None:
            self.tokens.append(piece.token)
            self.logprobs.append(piece.logprob)

    def end(self, end):
        self.finish, self.n_prompt, self.n_cached = _STOPS[end.reason], end.n_prompt, end.n_cached

    def __str__(self):
        return self.text


class SearchResult:
    """What a search chose: `text` and its canonical `answer`, `score`, and how many `candidates`, `finished`,
    `judged`, `passed` and `agree` with the answer; `tokens` that all of them generated."""

    def __init__(self, result):
        text = string_at(result.text) if result.text else b""
        self.reasoning = text[:result.n_reasoning].decode(errors="replace")
        self.text = text[result.n_reasoning:].decode(errors="replace")
        self.answer = string_at(result.answer).decode(errors="replace") if result.answer else ""
        self.score, self.tokens = result.score, result.generated_tokens
        self.candidates, self.finished, self.judged = result.n_candidates, result.n_finished, result.n_judged
        self.passed, self.agree = result.n_passed, result.n_agree

    def __str__(self):
        return self.text


class _Running:
    """A submitted request: its callbacks, and what they have brought so far."""

    def __init__(self, n):
        self.pieces, self.ended, self.n = deque(), 0, n
        self.replies = [Reply(i) for i in range(n)]
        fields = dict(abi.lutra_request._fields_)
        self.on_text, self.on_end = fields["on_text"](self._text), fields["on_end"](self._end)

    def _text(self, _user, piece):
        made = Piece(piece.contents)
        self.replies[made.sample].add(made)
        self.pieces.append(made)
        return 0

    def _end(self, _user, end):
        self.replies[end.contents.sample].end(end.contents)
        self.ended += 1


class Lutra:
    """A model and a session of it.

    path      a GGUF file or a Hugging Face folder
    n_ctx     longest sequence in tokens; 0: what the model was trained for, or what memory allows
    n_seq     sequences at once: samples of a request, candidates of a search
    device    "cpu" and others (lutra/core.h); None: the default
    Other keywords are fields of lutra_session_settings (cache_type, spec_type, draft_max, ...).
    Calls from several threads are safe; their passes take turns.
    """

    def __init__(self, path, *, n_ctx=0, n_seq=16, device=None, n_threads=0, log=None, **session):
        self._runtime = self._model = self._session = None
        self._lock = threading.RLock()
        _known("Lutra", session, _fields("lutra_session_settings"))
        settings = _struct("lutra_runtime_settings", n_threads=n_threads)
        if device:
            settings.device = device.encode()
        if log:
            self._log = dict(abi.lutra_runtime_settings._fields_)["log"](
                lambda _user, level, line: log(level, line.decode(errors="replace")))
            settings.log = self._log
        self._runtime = _opened("lutra_runtime_open", byref(settings))
        self._model = _opened("lutra_model_open", self._runtime, os.fsencode(path), None)
        settings = _struct("lutra_session_settings", n_ctx=n_ctx, n_seq=n_seq, **session)
        self._session = _opened("lutra_session_open", self._model, byref(settings))

    def close(self):
        """Frees everything; also at the end of a `with` block."""
        for kind in ("session", "model", "runtime"):
            handle = getattr(self, f"_{kind}", None)
            if handle:
                getattr(library, f"lutra_{kind}_close")(byref(handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    __del__ = close

    @property
    def info(self):
        """What is known of the model, by the names of lutra_model_info."""
        info = abi.lutra_model_info()
        library.lutra_model_info_get(self._model, byref(info), sizeof(info))
        values = {name: getattr(info, name) for name in _fields("lutra_model_info")}
        return {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in values.items()}

    # ---- tokens

    def tokenize(self, text, special=True, parse=False):
        """Token ids.  special: beginning and end tokens as the model asks; parse: control tokens that the text spells
        become tokens."""
        flags = abi.LUTRA_ADD_SPECIAL * special | abi.LUTRA_PARSE_SPECIAL * parse
        raw = text.encode()
        return _all_tokens(lambda room, n, found, error: library.lutra_tokenize(
            self._model, raw, len(raw), flags, room, n, found, error))

    def detokenize(self, tokens, special=False):
        text, n = c_void_p(), c_size_t()
        array = (c_int32 * len(tokens))(*tokens)
        _call("lutra_detokenize", self._model, array, len(tokens), special, byref(text), byref(n))
        return _taken(text, n)

    def chat_tokens(self, messages, *, tools=None, reasoning=True, template=None, **variables):
        """The prompt that the model's chat template makes of messages: a text (one of the user's), or dicts with
        "role" and "content".  variables: what else the template asks for."""
        chat = _struct("lutra_chat")
        raw = json.dumps({**variables, "messages": _messages(messages), **({"tools": tools} if tools else {})}).encode()
        chat.json, chat.n_json = raw, len(raw)
        chat.flags = abi.LUTRA_CHAT_REPLY | (0 if reasoning else abi.LUTRA_CHAT_NO_REASONING)
        chat.chat_template = template.encode() if template else None
        return _all_tokens(lambda room, n, found, error: library.lutra_chat_tokenize(
            self._model, byref(chat), room, n, found, error))

    # ---- text

    def generate(self, prompt, *, n=1, stream=False, **options):
        """Continues a prompt: a text (which may spell control tokens) or token ids.  Gives a Reply, for n > 1 a list
        of them, with stream an iterator of Pieces.

        options: fields of lutra_sampling (seed, temperature, top_k, ...) and of lutra_request (max_tokens,
        reasoning_budget, ...); stop: a text or a list; logit_bias: {token: bias}; grammar: GBNF; json_schema: a dict;
        timeout: seconds."""
        tokens = self.tokenize(prompt, parse=True) if isinstance(prompt, str) else prompt
        running = self._submit(tokens, n, options)
        if stream:
            return self._pieces(running)
        for _ in self._pieces(running):
            pass
        return running.replies[0] if n == 1 else running.replies

    __call__ = generate

    def chat(self, messages, *, tools=None, reasoning=True, template=None, variables=None, **options):
        """The reply to a conversation; arguments as of chat_tokens(), options as of generate()."""
        tokens = self.chat_tokens(messages, tools=tools, reasoning=reasoning, template=template, **(variables or {}))
        return self.generate(tokens, **options)

    def search(self, messages, method="vote", *, width=8, verifier=None, on_event=None, reasoning=True, template=None,
               **options):
        """Several candidates, one answer: `method` is "vote", "weighted", "best", "beam", "dvts", "rebase" or "auto";
        all but votes need a Verifier.  on_event is called with dicts: a candidate's steps, forks, prunings, its end.
        options: fields of lutra_search (expand, token_budget, ...), and those of generate()."""
        if method not in _METHODS:
            raise ValueError(f"no search method {method!r}: {', '.join(_METHODS)}")
        told = {key: options.pop(key) for key in list(options) if key in _fields("lutra_search") - {"user"}}
        search = _struct("lutra_search", method=_METHODS[method], width=width, **told)
        if verifier:
            search.verifier = verifier._handle
        if on_event:
            call = dict(abi.lutra_search._fields_)["on_event"](lambda _user, event: on_event(_event(event.contents)))
            search.on_event = call
        request, kept = self._request(self.chat_tokens(messages, reasoning=reasoning, template=template), 1, options)
        with self._lock:
            run = _opened("lutra_search_submit", self._session, byref(request), byref(search))
        try:
            while not library.lutra_search_done(run):
                self._step()
            return SearchResult(library.lutra_search_done(run).contents)
        finally:
            with self._lock:
                library.lutra_search_close(byref(run))
            del kept

    # ---- requests

    def _request(self, tokens, n, options):
        """A request, and what must live as long as it is being submitted."""
        options = dict(options)
        sampling = {key: options.pop(key) for key in list(options) if key in _fields("lutra_sampling")}
        texts = options.pop("stop", [])
        texts = [texts] if isinstance(texts, str) else list(texts)
        bias = options.pop("logit_bias", {})
        schema = options.pop("json_schema", None)
        timeout = options.pop("timeout", 0)
        _known("generate", options, _fields("lutra_request"))
        prompt, stops = (c_int32 * len(tokens))(*tokens), _strings(texts)
        biases = (abi.lutra_logit_bias * len(bias))(*[(int(t), float(b)) for t, b in bias.items()])
        chosen = abi.lutra_sampling()
        library.lutra_model_sampling_get(self._model, byref(chosen), sizeof(chosen))
        for key, value in sampling.items():
            setattr(chosen, key, value.encode() if isinstance(value, str) else value)
        if bias:
            chosen.bias, chosen.n_bias = biases, len(bias)
        request = _struct("lutra_request", n_prompt=len(tokens), n_samples=n, n_stop=len(texts),
                          timeout_us=int(timeout * 1e6), **options)
        request.prompt, request.stop = prompt, stops
        request.sampling = pointer(chosen)
        if schema is not None:
            request.json_schema = schema.encode() if isinstance(schema, str) else json.dumps(schema).encode()
        return request, (prompt, stops, biases, chosen)

    def _submit(self, tokens, n, options):
        request, kept = self._request(tokens, n, options)
        running = _Running(n)
        request.on_text, request.on_end = running.on_text, running.on_end
        number = c_int32()
        with self._lock:
            _call("lutra_submit", self._session, byref(request), byref(number))
        running.id = number.value
        del kept  # the library has copied it
        return running

    def _step(self):
        with self._lock:
            _call("lutra_step", self._session, None)

    def _pieces(self, running):
        """Passes until the request has ended; one that is not read to its end is cancelled."""
        try:
            while running.ended < running.n or running.pieces:
                if not running.pieces:
                    self._step()
                while running.pieces:
                    yield running.pieces.popleft()
        finally:
            if running.ended < running.n and self._session:
                with self._lock:
                    library.lutra_request_cancel(self._session, running.id)
                while running.ended < running.n:
                    self._step()


class Verifier:
    """A judge of candidates: `check`, a function of (question, text) that gives 0 to 1 or None, or a checker by name
    or command line; or `model`, a Lutra whose model is a verifier (kind: "value", "token", "likelihood")."""

    def __init__(self, check=None, *, model=None, kind=None):
        self._handle, self._kept = None, (check, model)
        if (check is None) == (model is None):
            raise ValueError("a verifier is a check or a model")
        if callable(check):
            self._call = _check_function(check)
            kind, settings = "function", _struct("lutra_verifier_settings", check=self._call)
        elif check:
            kind, settings = "program", _struct("lutra_verifier_settings", command=check)
        else:
            settings = _struct("lutra_verifier_settings", model=model._model)
        self._handle = _opened("lutra_verifier_open", kind and kind.encode(), byref(settings))

    def close(self):
        if self._handle:
            library.lutra_verifier_close(byref(self._handle))

    __del__ = close


# ---- what the classes share


def _check_function(check):
    def call(_user, what, why, n_why):
        try:
            told = what.contents
            reward = check((told.question or b"").decode(errors="replace"), told.text.decode(errors="replace"))
            return -1.0 if reward is None else float(reward)
        except Exception as error:  # a callback of C: it cannot go further
            said = str(error).encode()[:n_why - 1] + b"\0"
            memmove(why, said, len(said))
            return -1.0

    return dict(abi.lutra_verifier_settings._fields_)["check"](call)


def _event(event):
    return {"kind": _EVENTS[event.kind], "candidate": event.candidate, "parent": event.parent,
            "n_step": event.n_step, "reward": event.reward, "score": event.score,
            "text": (event.text or b"").decode(errors="replace"),
            "answer": (event.answer or b"").decode(errors="replace")}


def _known(call, options, names):
    for key in options:
        if key not in names:
            raise TypeError(f"{call}() has no option {key!r}")


def _messages(messages):
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def _all_tokens(fill):
    """Calls fill(room, n, found, error), first to learn how many there are."""
    error, found = abi.lutra_error(), c_int()
    room, n = None, 0
    while True:
        if fill(room, n, byref(found), byref(error)) < 0:
            raise LutraError(error.code, error.what.decode(errors="replace"), error.where)
        if found.value <= n:
            return list(room[:found.value]) if room else []
        n = found.value
        room = (c_int32 * n)()


def _taken(text, n):
    """A text that the library has allocated."""
    made = string_at(text, n.value).decode(errors="replace")
    library.lutra_free(text)
    return made
