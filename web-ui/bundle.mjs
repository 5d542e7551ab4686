// Bundles src/ into the folder that the first argument names: index.html, a script and a style sheet
// with hashes of their contents in their names, and the licences of all that they carry.
import {build} from 'esbuild';
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {basename} from 'node:path';

const out = process.argv[2];
if (!out) {
  console.error('bundle.mjs: the folder to write is missing: node bundle.mjs FOLDER');
  process.exit(2);
}
rmSync(out, {recursive: true, force: true});
mkdirSync(out, {recursive: true});
const {metafile} = await build({
  entryPoints: {app: 'src/main.tsx'},
  outdir: out,
  entryNames: '[name]-[hash]',
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  metafile: true,
});

const names = Object.keys(metafile.outputs).map((path) => basename(path));
const nameOf = (end) => names.find((name) => name.endsWith(end));
writeFileSync(`${out}/index.html`, readFileSync('src/index.html', 'utf8')
  .replace('STYLE', nameOf('.css')).replace('SCRIPT', nameOf('.js')));

const packages = new Set(Object.keys(metafile.inputs)
  .map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
const licences = [...packages].sort().map((name) => {
  const {version, license} = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'));
  return `${name} ${version} (${license})\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}\n`;
});
writeFileSync(`${out}/LICENSES.txt`,
  `The dashboard of kvrail carries these packages:\n\n${licences.join(`\n${'-'.repeat(72)}\n\n`)}`);
