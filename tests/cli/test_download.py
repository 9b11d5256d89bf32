# SPDX-License-Identifier: MIT
"""Downloads from a server that cuts, stalls, lies and sends other bytes; and of a process that is killed again and
again.

No file may ever lie under a name that says it is whole without being it.  Everything is on the loopback."""
import hashlib, http.server, json, os, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
LONG = os.environ.get("LUTRA_TEST_LONG") == "1"
KILLS = 50 if LONG else 5
MODEL = open(os.path.join(SOURCE, "models", "abacus-1m-f16.gguf"), "rb").read()
SHA = hashlib.sha256(MODEL).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
home = tempfile.mkdtemp()
failures = 0


class Server(http.server.BaseHTTPRequestHandler):
    """mode: what it does to the file; budget: how often it does so before it behaves."""
    protocol_version = "HTTP/1.1"
    mode, budget, ranges, tokens, tree, files = "", 0, [], [], None, {}

    def log_message(self, *args):
        pass

    def answer(self, code, body, **headers):
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def do_GET(self):
        s = Server
        s.tokens.append((self.path, self.headers.get("Authorization")))
        if s.mode.isdigit() and (s.mode != "500" or s.budget > 0):
            s.budget -= 1
            return self.answer(int(s.mode), b"GGUF no")
        if self.path.endswith("/revision/main"):
            return self.answer(200, b"{" if s.mode == "no json" else json.dumps({"sha": COMMIT}).encode())
        if "/tree/" in self.path:
            return self.answer(200, json.dumps(s.tree).encode())
        if s.mode == "redirect" and not self.path.startswith("/cdn"):
            other = f"http://localhost:{self.server.server_port}/cdn{self.path}"  # another name: the token stays here
            return self.answer(302, b"moved", Location=other)
        if s.mode == "circle":
            return self.answer(302, b"moved", Location=self.path)
        self.send_file()

    def send_file(self):
        s = Server
        whole = s.files.get(self.path.split(f"/{COMMIT}/")[-1], MODEL)
        asked = re.match(r"bytes=(\d+)-$", self.headers.get("Range") or "")
        start = int(asked.group(1)) if asked else 0
        s.ranges.append(start)
        bad = s.budget > 0
        s.budget -= bad
        body = whole[start:]
        if bad and s.mode == "other bytes":
            body = bytes(len(body) // 2) + body[len(body) // 2:]
        if bad and s.mode == "ignores range":
            start, asked, body = 0, None, whole
        if bad and s.mode == "other part":
            body = whole[start + 7:]
        head = {"Content_Range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"} if asked else {}
        if bad and s.mode == "other part" and asked:
            head["Content_Range"] = f"bytes {start + 7}-{len(whole) - 1}/{len(whole)}"
        if bad and s.mode == "longer":
            body += b"more"
        if bad and s.mode == "shorter":
            body = body[:-5]
        if bad and s.mode == "endless":  # no length, and more than was announced
            body += whole
            self.close_connection = True
        self.send_response(206 if asked else 200)
        for k, v in head.items():
            self.send_header(k.replace("_", "-"), v)
        if not (bad and s.mode == "endless"):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        stop = len(body) // 3 if bad and s.mode in ("cut", "stall") else len(body)
        try:
            for i in range(0, stop, 65536):
                self.wfile.write(body[i:min(stop, i + 65536)])
                if s.mode == "slow":
                    time.sleep(0.01)
            if bad and s.mode == "stall":
                time.sleep(3)
        except OSError:
            pass
        if stop < len(body):
            self.close_connection = True


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args):
        pass


def check(good, what, done=None):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what, "\n", (done.stdout + done.stderr)[-600:] if done else "")


def command(cache, *args, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LUTRA_ARG_", "HF_", "XDG_", "LLAMA_", "OLLAMA_",
                                                                    "http", "HTTP"))}
    env.update({"HOME": home, "HF_HUB_CACHE": os.path.join(home, cache), "HF_ENDPOINT": f"http://127.0.0.1:{port}/",
                "HF_HUB_DOWNLOAD_TIMEOUT": "1", "LUTRA_ARG_THREADS": "1", **more})
    return [LUTRA, "run", "-hf", "maker/sum-GGUF", *args, "-st", "-n", "2", "--temp", "0", "-p", "1 + 1", "-q"], env


def lutra(cache, *args, **more):
    words, env = command(cache, *args, **more)
    return subprocess.run(words, env=env, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          timeout=120)


def only_good(cache, what):
    """What says it is whole is whole; links lead to it."""
    good = 0
    for folder, _, files in os.walk(os.path.join(home, cache)):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith((".incomplete", ".link", "main")) or ".main" in name or name.startswith("main."):
                continue
            good += 1
            data = open(path, "rb").read()
            check(hashlib.sha256(data).hexdigest() == SHA, f"{what}: {path} is not the file")
    return good


def listing(**changes):
    entry = {"type": "file", "path": "sum-Q8_0.gguf", "size": len(MODEL), "lfs": {"oid": SHA, "size": len(MODEL)}}
    return [{"type": "directory", "path": "sub"}, {"type": "file", "path": "README.md", "size": 3, "oid": "0" * 40},
            {**entry, **changes}]


server = Quiet(("127.0.0.1", 0), Server)
port = server.server_port
threading.Thread(target=server.serve_forever, daemon=True).start()
plain = listing()
n_cache = 0


def case(what, mode, budget, code, words="", tree=None, args=(), **more):
    """One download into a cache of its own."""
    global n_cache
    Server.mode, Server.budget, Server.ranges, Server.tokens = mode, budget, [], []
    Server.tree = plain if tree is None else tree
    n_cache += 1
    cache = f"cache{n_cache}"
    done = lutra(cache, *args, **more)
    check(done.returncode == code, f"{what}: exit code {done.returncode}, not {code}", done)
    for word in words.split("|"):
        check(word in done.stderr, f"{what}: '{word}' is not said", done)
    check(only_good(cache, what) == (2 if code == 0 else 0), f"{what}: files", done)
    return cache, done


cache, done = case("a download", "", 0, 0)
before = len(Server.ranges)
check(lutra(cache).returncode == 0 and len(Server.ranges) == before, "the second time nothing is loaded")
link = os.path.join(home, cache, "models--maker--sum-GGUF/snapshots", COMMIT, "sum-Q8_0.gguf")
check(os.readlink(link) == f"../../blobs/{SHA}", "the hub's layout")
check(open(os.path.join(home, cache, "models--maker--sum-GGUF/refs/main")).read() == COMMIT, "refs/main")
case("a file below a folder", "", 0, 0, tree=listing(path="sub/deeper/sum-Q4_K_M.gguf"))
case("a server that cuts", "cut", 3, 0)
check(Server.ranges[1:] == sorted(Server.ranges[1:]) and Server.ranges[1] > 0, f"it is resumed: {Server.ranges}")
case("a server that stalls", "stall", 1, 0)
check(len(Server.ranges) == 2 and Server.ranges[1] > 0, f"it is resumed: {Server.ranges}")
case("a longer length", "longer", 1000, 1, "another length")
case("a shorter length", "shorter", 1000, 1, "another length")
case("more bytes than announced", "endless", 1000, 1, "more bytes")
case("other bytes", "other bytes", 1000, 1, "its sum")
case("a redirect", "redirect", 0, 0, HF_TOKEN="secret")
seen = {path.startswith("/cdn"): token for path, token in Server.tokens}
check(seen == {False: "Bearer secret", True: None}, f"the token is for one host: {seen}")
case("a circle", "circle", 0, 1, "redirect")
case("no access", "401", 0, 1, "HF_TOKEN")
case("no access", "403", 0, 1, "HF_TOKEN")
case("no repository", "404", 0, 1, "no such repository")
case("a server that fails", "500", 10**6, 1, "failed")
case("a server that failed twice", "500", 2, 0)
case("no JSON", "no json", 0, 1, "names no commit")
case("no list", "", 0, 1, "no list", tree={"a": 1})
case("a path that leaves", "", 0, 1, "no GGUF file", tree=listing(path="../../evil-Q8_0.gguf"))
case("an absolute path", "", 0, 1, "no GGUF file", tree=listing(path="/evil-Q8_0.gguf"))
case("no sum", "", 0, 1, "no GGUF file", tree=listing(lfs=None, oid=None))
case("an evil sum", "", 0, 1, "no GGUF file", tree=listing(lfs={"oid": "../" * 20 + "aaaa", "size": 5}))
case("nothing in it", "", 0, 1, "no GGUF file", tree=[])
case("a missing part", "", 0, 1, "has no",
     tree=listing(path="sum-Q8_0-00002-of-00003.gguf") + listing(path="sum-Q8_0-00001-of-00003.gguf"))
case("no quantization of the name", "", 0, 2, "", args=("-hf", "maker/sum-GGUF:"))
for elsewhere in ("http://192.0.2.1", f"http://localhost:x@127.0.0.1:{port}", f"http://localhost@127.0.0.1:{port}",
                  f"http://127.0.0.1:{port}@localhost:{port}", f"http://localhost:1:x@127.0.0.1:{port}",
                  "http://localhost.example", "http://127.0.0.1.example", f"http://[::1]:x@127.0.0.1:{port}",
                  f"http://localhost\\@127.0.0.1:{port}"):
    Server.tokens = []
    case(f"a token without https, {elsewhere}", "", 0, 2, "not sent without https", HF_TOKEN="x", HF_ENDPOINT=elsewhere)
    check(not Server.tokens, f"{elsewhere}: a token was sent")
case("a token to this machine", "", 0, 0, HF_TOKEN="x", HF_ENDPOINT=f"http://LocalHost:{port}/")
broken = os.path.join(home, "broken")
os.mkdir(broken)
open(os.path.join(broken, "libcurl.so.4"), "w").close()
case("no libcurl", "", 0, 1, "libcurl cannot be loaded|libcurl.so.4", LD_LIBRARY_PATH=broken)
case("no address", "", 0, 2, "not an address", HF_ENDPOINT="ftp://127.0.0.1")

# A repository without GGUF files: its folder, config.json last; small files by git's sum, others by SHA-256.
def folder_files():
    sizes = {"model.embed_tokens": [16, 64], "model.norm": [64]}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                 "mlp.up_proj",
                 "mlp.down_proj", "input_layernorm", "post_attention_layernorm"):
        sizes["model.layers.0." + name] = [64] if "norm" in name else [64, 64]
    header, data = {}, b""
    for name, shape in sizes.items():
        raw = b"\0\0\x80\x3f" * (shape[0] * (shape + [1])[1])
        header[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 64,
              "num_attention_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "vocab_size": 16,
              "hidden_act": "silu",
              "tie_word_embeddings": True}
    model = {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "merges": ["a b"],
             "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3}}
    tokenizer = {"added_tokens": [], "model": model,
                 "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}}
    return {"config.json": json.dumps(config).encode(), "tokenizer.json": json.dumps(tokenizer).encode(),
            "model.safetensors": len(text).to_bytes(8, "little") + text + data}


def folder_listing(files):
    small = [{"type": "file", "path": name, "size": len(raw),
              "oid": hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()}
             for name, raw in files.items() if name.endswith(".json")]
    raw = files["model.safetensors"]
    lfs = {"oid": hashlib.sha256(raw).hexdigest(), "size": len(raw)}
    others = [{"type": "file", "path": name, "size": 9, "oid": "1" * 40, "lfs": lfs}
              for name in ("onnx/model.onnx", "consolidated.safetensors")]
    return small + others + [{"type": "file", "path": "model.safetensors", "size": len(raw), "oid": "1" * 40,
                              "lfs": lfs}]


Server.files = folder_files()
Server.mode, Server.tree, Server.tokens = "", folder_listing(Server.files), []
done = lutra("folder", "-p", "a b")
check(done.returncode == 0, "a folder", done)
asked = [path.split("/")[-1] for path, _ in Server.tokens if "/resolve/" in path]
check(asked == ["tokenizer.json", "model.safetensors", "config.json"], f"a folder: {asked}")
check(lutra("folder", "-p", "a b", "--offline").returncode == 0, "the folder is found")
Server.tree[0]["oid"] = "2" * 40  # config.json's
done = lutra("folder2", "-p", "a b")
check(done.returncode == 1 and "its sum" in done.stderr, "a small file of other bytes", done)
check(lutra("folder2", "-p", "a b", "--offline").returncode == 1, "a part of a folder is no model")
Server.files, Server.tree = {}, plain

# A part of another file lies there: it is noticed, and the file comes from its beginning.
for mode in ("", "ignores range", "other part"):
    n_cache += 1
    blobs = os.path.join(home, f"cache{n_cache}", "models--maker--sum-GGUF", "blobs")
    os.makedirs(blobs)
    with open(os.path.join(blobs, SHA + ".incomplete"), "wb") as f:
        f.write(b"x" * 100000 if not mode else MODEL[:100000])
    Server.mode, Server.budget, Server.ranges = mode, 1, []
    done = lutra(f"cache{n_cache}")
    if mode == "other part":
        check(done.returncode == 1 and "another part" in done.stderr, "another part than asked for", done)
        done = lutra(f"cache{n_cache}")
    check(done.returncode == 0 and Server.ranges[0] == 100000, f"a part was there, {mode}: {Server.ranges}", done)
    check(only_good(f"cache{n_cache}", "a part was there") == 2, "a part was there: files", done)

# Killed at any moment, by a server that takes its time; then it goes on.
Server.mode, Server.budget, Server.tree = "slow", 0, plain
random.seed(15)
kills, rounds = 0, 0
while kills < KILLS:
    rounds += 1
    cache = f"killed{rounds}"
    for _ in range(12):
        words, env = command(cache)
        p = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL)
        try:
            p.wait(random.uniform(0.0, 0.3))
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.wait()
            kills += 1
        only_good(cache, "killed")
        if kills >= KILLS:
            break
    done = lutra(cache)
    check(done.returncode == 0, "after kills", done)
    check(only_good(cache, "after kills") == 2, "after kills: files")
    shutil.rmtree(os.path.join(home, cache), ignore_errors=True)

server.shutdown()
shutil.rmtree(home)
print(f"{kills} kills; " + ("all checks passed" if not failures else f"{failures} failed"))
sys.exit(failures > 0)
