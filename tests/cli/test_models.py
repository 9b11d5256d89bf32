# SPDX-License-Identifier: MIT
"""Models of other programs: their folders are read, names mean what they should, and a folder of any content does no
harm."""
import hashlib, json, os, pty, shutil, socket, subprocess, sys, tempfile, threading

LUTRA, SOURCE = os.environ["LUTRA"], os.environ["LUTRA_SOURCE"]
MODEL = os.path.join(SOURCE, "models", "abacus-1m-f16.gguf")
failures = 0
home = tempfile.mkdtemp()
env = {k: v for k, v in os.environ.items() if not k.startswith(("LUTRA_ARG_", "HF_", "XDG_", "LLAMA_", "OLLAMA_"))}
env["HOME"] = home
env["LUTRA_MODELS"] = os.path.join(home, "own")
env["https_proxy"] = "http://127.0.0.1:9"  # nobody answers


def check(good, what, done=None):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what, "\n", done.stdout if done else "", done.stderr if done else "")


def lutra(*args, **more):
    return subprocess.run([LUTRA, *args], env={**env, **more}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=120, cwd=home)


def put(path, data=None, link=None):
    path = os.path.join(home, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if link is not None:
        os.symlink(link, path)
    elif data is None:
        os.link(MODEL, path) if os.stat(home).st_dev == os.stat(MODEL).st_dev else shutil.copy(MODEL, path)
    else:
        with open(path, "wb") as f:
            f.write(data)
    return path


def ollama(name, digest, kind="application/vnd.ollama.image.model", raw=None):
    text = json.dumps({"schemaVersion": 2, "layers": [{"mediaType": "application/vnd.ollama.image.template",
                                                       "digest": "x"},
                                                      {"mediaType": kind, "digest": digest, "size": 3}]}).encode()
    put(f".ollama/models/manifests/host/{name}", text if raw is None else raw)


empty = lutra("models")
check(empty.returncode == 0 and "no models" in empty.stderr, "nothing anywhere", empty)

hub = ".cache/huggingface/hub"
sha = hashlib.sha256(open(MODEL, "rb").read()).hexdigest()
put(f"{hub}/models--maker--sum-GGUF/blobs/{sha}")
put(f"{hub}/models--maker--sum-GGUF/refs/main", b"c0ffee")
put(f"{hub}/models--maker--sum-GGUF/snapshots/c0ffee/sum-Q8_0.gguf", link=f"../../blobs/{sha}")
put(f"{hub}/models--maker--sum-GGUF/snapshots/c0ffee/sum-F16.gguf", link=f"../../blobs/{sha}")
put(f"{hub}/models--maker--sum-GGUF/snapshots/c0ffee/mmproj-F16.gguf", link=f"../../blobs/{sha}")
put(f"{hub}/models--maker--sum-GGUF/snapshots/0ld/sum-Q2_K.gguf", link=f"../../blobs/{sha}")
put(f"{hub}/models--maker--gone/snapshots/1/gone-Q4_0.gguf", link="../../blobs/nothing")
put(f"{hub}/models--maker--folder/snapshots/1/config.json", b"{}")
put(f"{hub}/models--maker--folder/snapshots/1/tokenizer.json", b"{}")
put(f"{hub}/models--maker--loop/snapshots/1/again", link="..")
put(".cache/llama.cpp/old_times_old-times-F16.gguf")
put(".cache/llama.cpp/manifest=old=times=F16.json", b"{}")
put(".lmstudio/models/studio/nice-GGUF/nice-BF16.gguf")
put(".lmstudio/models/studio/parts/parts-F16-00001-of-00002.gguf")
put(".lmstudio/models/studio/parts/parts-F16-00002-of-00002.gguf")
put(f".ollama/models/blobs/sha256-{sha}")
ollama("library/sums/latest", "sha256:" + sha)
ollama("library/sums/big", "sha256:" + sha)
ollama("someone/sums2/1b", "sha256:" + sha)
put(".ollama/models/secret", b"GGUF")
for i, (digest, raw) in enumerate([("sha256:../../secret", None), ("sha256:" + "a" * 63, None),
                                   ("sha256:" + "A" * 64, None),
                                   ("sha256:" + "b" * 64, None), (5, None), ("", b"{"), ("", b"[" * 100000),
                                   ("", b"x" * 2000000),
                                   ("", b'{"layers": {"a": 1}}'), ("", b'{"layers": [1, null]}')]):
    ollama(f"library/bad{i}/latest", digest, raw=raw)
put(".ollama/models/manifests/host/library/loop", link="../..")

put("own/mine-Q8_0.gguf")
put("own/deep/er.gguf")

everything = lutra("models", "--paths")
check(everything.returncode == 0, "lutra models", everything)
lines = {line.split()[0]: line for line in everything.stdout.splitlines() if line and not line.startswith(" ")}
for name, words in {"maker/sum-GGUF:Q8_0": "F16 fits Hugging", "maker/sum-GGUF:F16": "F16",
                    "maker/gone:Q4_0": "not there",
                    "maker/folder": "Hugging", "old/times:F16": "llama.cpp fits", "studio/nice-GGUF:BF16": "LM fits",
                    "studio/parts:F16": "LM", "sums:latest": "Ollama fits", "mine-Q8_0": "Lutra fits", "someone/sums2:1b": "Ollama",
                    "bad0:latest": "no SHA-256", "bad1:latest": "no SHA-256", "bad2:latest": "no SHA-256",
                    "bad3:latest": "not there", "bad4:latest": "no SHA-256", "bad5:latest": "no JSON",
                    "bad6:latest": "no JSON",
                    "bad7:latest": "cannot be read", "bad8:latest": "no model", "bad9:latest": "no model"}.items():
    for word in words.split():
        check(word in lines.get(name, ""), f"{name}: {word} in {lines.get(name)}")
for absent in ("mmproj", "Q2_K", "F16-00002", "deep"):
    check(absent not in everything.stdout, f"{absent} is listed", everything)


def welcome(**more):
    """What the program says without a word, on a terminal."""
    ours, its = pty.openpty()
    done = subprocess.run([LUTRA], env={**env, **more}, stdin=its, stdout=its, stderr=its, timeout=120, cwd=home)
    os.close(its)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # nobody has the other end
            break
        if not part:
            break
        said += part
    os.close(ours)
    return done.returncode, said.decode().replace("\r\n", "\n")


code, said = welcome()
check(code == 0 and "mine-Q8_0" in said and "lutra run maker/" in said and "lutra pull" in said, f"a first run: {said}")
nowhere = {"HOME": os.path.join(home, "nowhere"), "LUTRA_MODELS": ""}
code, said = welcome(**nowhere)  # those of the source folder
check(code == 0 and "abacus-1m-f16" in said and "lutra run abacus-3m-f16" in said, f"a first run of a new user: {said}")
check("lutra serve\n      a page" in said or "without libmicrohttpd" in lutra("serve", "--port", "0", "-m", "x").stderr, f"the page: {said}")
code, said = welcome(**{**nowhere, "LUTRA_MODELS": "nowhere"})
check(code == 0 and "No models" in said and "lutra pull" in said and "lutra serve" not in said, f"a first run without models: {said}")
check(lutra().returncode == 2, "without a terminal it is a usage error")


def answers(*args, **more):
    done = lutra("run", *args, "-st", "--temp", "0", "-n", "4", "-p", "1 + 1", "-q", **more)
    check(done.returncode == 0 and done.stdout, "run " + " ".join(args), done)


for name in ("maker/sum-GGUF:Q8_0", "SUMS", "sums:big", "sums2", "someone/sums2", "studio/nice-GGUF", "nice-bf16",
             "times"):
    answers("-m", name)
answers("times:f16")  # a positional name
answers("-hf", "maker/sum-GGUF:f16")
answers("-hf", "Maker/sum-gguf")  # Q8_0 before F16
answers("-hf", "maker/sum-GGUF", "--hf-file", "sum-F16.gguf")
answers("-hf", "old/times")

several = lutra("run", "-m", "sum-GGUF", "-p", "x")
check(several.returncode == 2 and "maker/sum-GGUF:F16" in several.stderr and "Q8_0" in several.stderr,
      "an ambiguous name", several)
for args, code, word in ((("-m", "nothing-of-it"), 1, "lutra models"), (("-m", "gone"), 1, "not there"),
                         (("-m", "bad0"), 1, "SHA-256"),
                         (("-hf", "maker"), 2, "USER/REPO"), (("-hf", "../x"), 2, "USER/REPO"),
                         (("-hf", "a/../b"), 2, "USER/REPO"),
                         (("-hf", "a/b/c"), 2, "USER/REPO"), (("-hf", "a/b:"), 2, "USER/REPO"),
                         (("-hf", "a/b--c"), 2, "USER/REPO"),
                         (("-hf", "maker/other"), 1, "https://huggingface.co"),
                         (("-hf", "maker/other", "--offline"), 1, "--offline"),
                         (("-hf", "maker/sum-GGUF:Q3_K"), 1, "HF_ENDPOINT"), (("--hf-file", "x.gguf"), 2, "-hf"),
                         (("-m", "x.gguf", "-hf", "a/b"), 2, "one model")):
    done = lutra("run", *args, "-p", "x")
    check(done.returncode == code and word in done.stderr, f"{args}: {done.returncode}, {word}", done)

# Without HF_ENDPOINT the public hub is asked, as a proxy that refuses sees.
asked = []
proxy = socket.create_server(("127.0.0.1", 0))


def refuse():
    while True:
        client, _ = proxy.accept()
        asked.append(client.recv(4096).split(b"\r\n")[0])
        client.sendall(b"HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n")
        client.close()


threading.Thread(target=refuse, daemon=True).start()
for args in (("pull", "maker/other:Q4_0"), ("run", "-hf", "maker/other:Q4_0", "-p", "x")):
    del asked[:]
    done = lutra(*args, https_proxy=f"http://127.0.0.1:{proxy.getsockname()[1]}")
    check(done.returncode == 1 and b"CONNECT huggingface.co:443 HTTP/1.1" in asked, f"the public hub: {asked}", done)
    check("HF_ENDPOINT" in done.stderr, "a mirror is named", done)
pulled = lutra("pull", "maker/sum-GGUF:Q8_0")
check(pulled.returncode == 0 and pulled.stdout.endswith("/sum-Q8_0.gguf\n"), "pull finds what is here", pulled)
for args in (("sums", "-st", "-p", "x", "-n", "1", "-q"), ("ls",), ("list", "sums")):
    done = lutra(*args)
    check(done.returncode == 0 and done.stdout, f"lutra {args}", done)

none = lutra("models", "nothing-of-it")
check(none.returncode == 1 and "of that name" in none.stderr, "no model of a name", none)
shown = lutra("inspect", "sums")
check(shown.returncode == 0 and "available now" in shown.stdout, "inspect by name", shown)
shutil.rmtree(home)
print("all checks passed" if not failures else f"{failures} failed")
sys.exit(failures > 0)
