"""The library as programs meet it: installed, linked in every way, of another age than the program.

usage: package.py CASE BUILD SOURCE CC CXX      exit status 77 (skipped) where a tool is missing

Cases: install (into BUILD/tests/package/prefix, for the others), symbols, debian, pkgconfig, cmake, subfolder, growth,
bare, absent; static in the long tests.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASE, BUILD, SOURCE, CC, CXX = sys.argv[1], *map(Path, sys.argv[2:4]), *sys.argv[4:6]
PREFIX = BUILD / "tests/package/prefix"
MODEL = SOURCE / "models/abacus-xs-f16.gguf"
QUESTION = "Tom has 3 apples and buys 5 more. How many apples does he have?"
ANSWER = "3 + 5 = 8.\n#### 8\n"
WARN = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]


def run(*command, **more):
    """Standard output; an error ends the test with everything that the command said."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def need(*tools):
    for tool in tools:
        if not tool or not shutil.which(tool):
            print(f"skipped: {tool or 'a C++ compiler'} is not installed")
            sys.exit(77)


def same(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} instead of {wanted!r}")


def environment(**more):
    return {**os.environ, **more}


def with_library(folder=PREFIX / "lib"):
    return environment(LD_LIBRARY_PATH=str(folder))


def answers(*command, env=None):
    same(command[0], run(*command, MODEL, QUESTION, env=env), ANSWER)


def elects(program, env=None):
    found = run(program, MODEL, QUESTION, env=env)
    if not re.fullmatch(r"8 \(\d+ % of the votes\)\n", found):
        sys.exit(f"{program}: {found!r}")


# ---- cases


def install():
    shutil.rmtree(PREFIX, ignore_errors=True)
    for component in ("library", "program"):
        run("cmake", "--install", BUILD, "--component", component, "--prefix", PREFIX)
    run(PREFIX / "bin/lutra", "--version")
    pages = {path.name for path in PREFIX.rglob("*.1")}
    if not {"lutra.1", "lutra-run.1"} <= pages:
        sys.exit(f"man pages: {sorted(pages)}")


def declared():
    """Functions of the public headers."""
    names = set()
    for header in [SOURCE / "include/lutra.h", *sorted((SOURCE / "include/lutra").glob("*.h"))]:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#.*(\\\n.*)*", "", text, flags=re.M)
        for statement in re.findall(r"[^;{}]*\([^;{}]*;", text):
            function = re.search(r"\b(lutra_\w+)\(", statement)
            if function and "typedef" not in statement:
                if "LUTRA_API" not in statement:
                    sys.exit(f"{header}: {function[1]} has no LUTRA_API")
                names.add(function[1])
    return names


def symbols():
    need("nm")
    for library, how in (("liblutra.so.0", "-D"), ("liblutra.a", "-g")):
        listing = run("nm", how, "--defined-only", PREFIX / "lib" / library)
        found = {line.split()[2] for line in listing.splitlines() if len(line.split()) == 3}
        extra, missing = found - declared(), declared() - found
        if extra or missing:
            sys.exit(f"{library}: not in the headers: {sorted(extra)}; missing: {sorted(missing)}")
    # Debian's list: a function that came since a program was built makes the package ask for a newer library.
    listing = (SOURCE / "debian/liblutra0.symbols").read_text().splitlines()
    same("debian/liblutra0.symbols, first line", listing[0], "liblutra.so.0 liblutra0 #MINVER#")
    version = re.search(r"VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    listed = {line.split("@")[0].strip() for line in listing[1:]}
    if listed != declared():
        sys.exit("debian/liblutra0.symbols: write " + ", ".join(f" {name}@Base {version}" for name in
                 sorted(declared() - listed)) + "; take out " + ", ".join(sorted(listed - declared())))
    print(f"{len(declared())} functions")


def pkgconfig():
    need("pkg-config", CXX)
    env = environment(PKG_CONFIG_PATH=str(PREFIX / "lib/pkgconfig"))
    shared, static = (run("pkg-config", *how, "--cflags", "--libs", "lutra", env=env).split()
                      for how in ([], ["--static"]))
    with tempfile.TemporaryDirectory() as tmp:
        for source, compiler in (("complete.c", [CC, "-std=c11"]), ("complete.cpp", [CXX, "-std=c++17"])):
            program = Path(tmp) / "complete"
            run(*compiler, *WARN, SOURCE / "examples" / source, "-o", program, *shared)
            answers(program, env=with_library())
            alone = [f.replace("-llutra", "-l:liblutra.a") for f in static]
            run(*compiler, *WARN, SOURCE / "examples" / source, "-o", program, *alone)
            answers(program)
        run(CC, "-std=c11", *WARN, SOURCE / "examples/search.c", "-o", program, *shared)
        elects(program, with_library())
    version = run("pkg-config", "--modversion", "lutra", env=env).strip()
    same("lutra_version()", run("strings", "-a", PREFIX / "lib/liblutra.so.0").split("\n").count(version) > 0, True)


def debian():
    """liblutra-dev depends on the packages of what lutra.pc requires: pkg-config refuses without them."""
    need("pkg-config", "dpkg-query")
    requires, = re.findall(r"^Requires.private: (.*)", (PREFIX / "lib/pkgconfig/lutra.pc").read_text(), flags=re.M)
    control = (SOURCE / "debian/control").read_text().split("Package: liblutra-dev\n")[1]
    depends = re.split(r",\s*", re.search(r"^Depends: (.*(?:\n .*)*)", control, flags=re.M)[1])
    for module in requires.split():
        file = Path(run("pkg-config", "--variable=pcfiledir", module).strip()) / f"{module}.pc"
        owner = subprocess.run(["dpkg-query", "-S", file], capture_output=True, text=True).stdout.split(":")[0]
        if not owner:
            print(f"{file} is of no package")
        elif owner not in depends:
            sys.exit(f"debian/control: liblutra-dev does not depend on {owner}, which has {module}.pc")


def project(folder, *settings):
    """Configures the examples; compiler and launcher as this build has them."""
    run("cmake", "-S", SOURCE / "examples", "-B", folder, "-G", "Ninja", f"-DCMAKE_C_COMPILER={CC}",
        f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *settings)


def cmake():
    need("cmake", "ninja", "pkg-config", CXX)
    for shared in ("OFF", "ON"):
        with tempfile.TemporaryDirectory() as tmp:
            project(tmp, f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DBUILD_SHARED_LIBS={shared}")
            run("cmake", "--build", tmp)
            linked = "liblutra.so.0" in run("ldd", f"{tmp}/complete")
            same(f"BUILD_SHARED_LIBS={shared}: needs liblutra.so.0", linked, shared == "ON")
            answers(f"{tmp}/complete")
            answers(f"{tmp}/complete_cpp")
            elects(f"{tmp}/search")


def subfolder():
    """The whole build only as a long test: it compiles the library once more."""
    need("cmake", "ninja", "pkg-config", CXX)
    long = bool(os.environ.get("LUTRA_TEST_LONG"))
    with tempfile.TemporaryDirectory() as tmp:
        project(tmp, f"-DLUTRA_FOLDER={SOURCE}")
        commands = json.loads((Path(tmp) / "compile_commands.json").read_text())
        own, = (c["command"] for c in commands if c["file"].endswith("examples/complete.c"))
        for leak in ("-ffp-contract", "-Wshadow", "_GNU_SOURCE", "visibility", f"-I{SOURCE}/src"):
            if leak in own:
                sys.exit(f"{leak} came from lutra into the project around it: {own}")
        run("sh", "-c", own + " -fsyntax-only", cwd=tmp)
        targets = run("cmake", "--build", tmp, "--target", "help")
        for foreign in ("lutra_cli", "unit_", "tests/"):
            if re.search(rf"^{foreign}", targets, flags=re.M):
                sys.exit(f"a target of lutra's own tests or programs: {foreign}")
        if long:
            run("cmake", "--build", tmp, "--target", "complete")
            answers(f"{tmp}/complete")
        else:
            run("cmake", "--build", tmp, "--target", "lutra_base")


def says_why_not(lutra):
    """tests/cli/test_rag.sh on a program without SQLite: `lutra rag` and `--rag` say so, and it skips the rest."""
    done = subprocess.run(["bash", SOURCE / "tests/cli/test_rag.sh"], capture_output=True, text=True,
                          env=environment(LUTRA=str(lutra), LUTRA_SOURCE=str(SOURCE)))
    same("test_rag.sh without SQLite", (done.returncode, done.stdout.strip()),
         (77, "skipped: built without SQLite, and said so"))


def without_sqlite(folder):
    """This build's program, linked anew with what stands for the room rag where there is no SQLite."""
    room = folder / "store_none.o"
    run(CC, "-std=c11", *WARN, "-Wno-unused-parameter", f"-I{SOURCE}/include", f"-I{SOURCE}/src", "-c", SOURCE / "src/rag/store_none.c", "-o",
        room)
    link = run("ninja", "-C", BUILD, "-t", "commands", "-s", "lutra").strip().split("\n")[-1]
    link, n_out = re.subn(r" -o lutra ", f" -o {folder}/lutra ", link)
    link, n_room = re.subn(r"\S*liblutra_rag\.a", str(room), link)
    link, n_sqlite = re.subn(r"\S*libsqlite3\S*|-lsqlite3", "", link)
    if not (n_out and n_room and n_sqlite):
        print("this build has no SQLite, or another way to link")
        return
    run("sh", "-c", link, cwd=BUILD)
    same("SQLite is linked", "sqlite" in run("ldd", folder / "lutra"), False)
    says_why_not(folder / "lutra")


def bare():
    """A build system comes out where the NPU's compiler and emulator, or libraries that some users need, are missing;
    as a long test a program, too."""
    need("cmake", "ninja", "pkg-config")
    with tempfile.TemporaryDirectory() as tmp:
        without_sqlite(Path(tmp))
    libraries = [f"LUTRA_{name}=OFF" for name in ("SQLITE", "LIBEDIT", "LIBCURL", "LIBXML2")]
    for missing in (["NPU_CLANG=", "NPU_LLD=", "NPU_QEMU=", *libraries], ["NPU_QEMU="]):
        with tempfile.TemporaryDirectory() as tmp:
            run("cmake", "-S", SOURCE, "-B", tmp, "-G", "Ninja", f"-DCMAKE_C_COMPILER={CC}",
                *(f"-D{setting}" for setting in missing))
            if libraries[0] in missing and os.environ.get("LUTRA_TEST_LONG"):
                run("cmake", "--build", tmp, "--target", "lutra")
                says_why_not(Path(tmp) / "lutra")


def names(which, files):
    """Global symbols of object files and archives: those that they define, or lack."""
    lines = run("nm", which, "--format=posix", *files).splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.endswith(":")}


def absent():
    """A build without LUTRA_QUANTIZE has quantize/none.c in the place of two rooms: it defines what the others and the
    program link of them, and the public functions."""
    need("nm")
    rooms = {p.stem.removeprefix("liblutra_"): p for p in BUILD.glob("liblutra_*.a")}
    out = [rooms.pop(room) for room in ("quantize", "make")]
    kept = [*rooms.values(), *BUILD.glob("CMakeFiles/lutra_cli.dir/**/*.o")]
    if not any(p.suffix == ".o" for p in kept):
        sys.exit("the program's object files are not where they were")
    with tempfile.TemporaryDirectory() as tmp:
        stand_in = Path(tmp) / "none.o"
        run(CC, "-std=c11", "-D_GNU_SOURCE", *WARN, "-Wno-unused-parameter", f"-I{SOURCE}/include", f"-I{SOURCE}/src", "-c",
            SOURCE / "src/quantize/none.c", "-o", stand_in)
        there, gone = names("--defined-only", [stand_in]), names("--defined-only", out)
    public = set(run("nm", "-D", "--defined-only", "--format=posix", BUILD / "liblutra.so").split())
    wanted = gone & (names("--undefined-only", kept) | public) - names("--defined-only", kept)
    if not {"lutra_quantize", "lutra_make_model"} <= wanted:
        sys.exit(f"of quantize and make nothing is used: {sorted(wanted)}")
    same("missing in quantize/none.c", sorted(wanted - there), [])


def static():
    """scripts/static for both architectures; the programs answer as this build does, the other one under QEMU."""
    need("apt-get", "dpkg-deb", "cmake", "ninja", "pkg-config")
    problems = [json.loads(line)["question"] for line in open(SOURCE / "models/abacus-test.jsonl").readlines()[:20]]
    words = ["run", "-q", "-st", "-m", MODEL, "--temp", "0", "-p"]
    for arch, triple, emulator in (("amd64", "x86_64-linux-gnu", []), ("arm64", "aarch64-linux-gnu", ["qemu-aarch64"])):
        if not shutil.which(f"{triple}-gcc"):
            print(f"{arch}: no {triple}-gcc here")
            continue
        with tempfile.TemporaryDirectory() as tmp:
            program = Path(tmp) / "lutra"
            run(SOURCE / "scripts/static", arch, program, cwd=SOURCE)
            if emulator and not shutil.which(emulator[0]) or not emulator and os.uname().machine != "x86_64":
                print(f"{arch}: built, not run")
                continue
            for problem in problems:
                same(f"{arch}: {problem}", run(*emulator, program, *words, problem, stdin=subprocess.DEVNULL),
                     run(BUILD / "lutra", *words, problem, stdin=subprocess.DEVNULL))


# ---- programs and libraries of different age

FIXED = {"lutra_error", "lutra_message", "lutra_logit_bias", "lutra_hints"}


def grow_headers(folder):
    """The headers of a later version: each struct that may grow has."""
    shutil.copytree(SOURCE / "include", folder)
    grown = 0
    for header in (folder / "lutra").glob("*.h"):
        def grow(struct):
            nonlocal grown
            if struct[1] in FIXED:
                return struct[0]
            grown += 1
            return struct[0].replace("\n};", "\n    uint64_t future[4];\n};")
        header.write_text(re.sub(r"^struct (\w+) \{.*?^\};", grow, header.read_text(), flags=re.S | re.M))
    same("structs that grow", grown > 15, True)


DEBUG = ["-g"] if shutil.which("abidiff") and os.environ.get("LUTRA_TEST_LONG") else []  # it reads types there


def build_library(folder, include):
    """liblutra.so.0 with the engine and the rooms above it compiled against other headers; those below do not see
    them, and none of rag is wanted."""
    rooms = [p for p in sorted(BUILD.glob("liblutra_*.a")) if p.name != "liblutra_engine.a"]  # kernels of quantize, too
    seeing = ("devices", "engine", "draft", "chat", "embed", "sidecar", "search", "quantize", "make")
    sources = [p for room in seeing for p in sorted((SOURCE / "src" / room).glob("*.c")) if p.name != "none.c"]
    libraries = run("pkg-config", "--libs", "jansson", "libpcre2-8", "libutf8proc").split()
    folder.mkdir()
    run(CC, "-std=c11", "-O0", *DEBUG, "-fPIC", "-shared", "-fvisibility=hidden", "-D_GNU_SOURCE", "-Werror", "-pthread",
        f"-I{include}", f"-I{SOURCE}/src", *sources, "-Wl,--start-group", *rooms,
        "-Wl,--end-group", *libraries, "-lm", "-ldl", "-Wl,-soname,liblutra.so.0", "-o", folder / "liblutra.so.0")


def growth():
    need("pkg-config")
    with tempfile.TemporaryDirectory() as name:
        tmp = Path(name)
        grow_headers(tmp / "later")
        include = {"now": SOURCE / "include", "later": tmp / "later"}
        for age, headers in include.items():
            if age == "later" or DEBUG:
                build_library(tmp / f"lib-{age}", headers)
            else:
                (tmp / f"lib-{age}").mkdir()
                shutil.copy(BUILD / "liblutra.so.0", tmp / f"lib-{age}")
            run(CC, "-std=c11", *WARN, *(["-DLUTRA_FUTURE"] if age == "later" else []), f"-I{headers}",
                SOURCE / "tests/package/growth.c", "-o", tmp / f"program-{age}", tmp / f"lib-{age}/liblutra.so.0")
        said = {(program, library): run(tmp / f"program-{program}", MODEL, env=with_library(tmp / f"lib-{library}"))
                for program in include for library in include}
        for pair, text in said.items():
            same(f"program {pair[0]} with library {pair[1]}", text, said["now", "now"])
        if "answer 8" not in said["now", "now"] or "checked: 1.0" not in said["now", "now"]:
            sys.exit(said["now", "now"])
        future = [run(tmp / "program-later", MODEL, "future", env=with_library(tmp / f"lib-{a}")) for a in include]
        same("a later field and a later library", future[1], "future: success\n")
        if "not supported: sampling" not in future[0] or "older than the program" not in future[0]:
            sys.exit(f"a later field and an older library: {future[0]!r}")
        if DEBUG:
            found = subprocess.run(["abidiff", "--headers-dir1", include["now"], "--headers-dir2", include["later"],
                                    *(tmp / f"lib-{age}/liblutra.so.0" for age in include)], text=True,
                                   capture_output=True)
            if found.returncode & ~4 or "offset changed" in found.stdout:  # 4: something has changed, as it should
                sys.exit(f"abidiff: {found.returncode}\n{found.stdout[-3000:]}{found.stderr}")
        else:
            print("abidiff (Debian: abigail-tools) compares the libraries only with LUTRA_TEST_LONG=1")


globals()[CASE]()
