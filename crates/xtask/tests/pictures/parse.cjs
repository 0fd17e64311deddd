// Reads a JSON list of Mermaid pictures from standard input with Mermaid's own parser, and writes a list of what is wrong with
// each: null where it is right.
const fs = require("fs");
const vm = require("vm");

// Mermaid wants a browser. To parse, it needs no more of one than that its sanitizer of HTML finds a document.
globalThis.window = {
  document: { nodeType: 9, implementation: {}, createElement: () => ({}) },
  Element: class {},
};
vm.runInThisContext(fs.readFileSync(require.resolve("@mermaid-js/tiny"), "utf8"));

async function main() {
  const wrong = [];
  for (const picture of JSON.parse(fs.readFileSync(0, "utf8"))) {
    wrong.push(await globalThis.mermaid.parse(picture).then(() => null, (error) => String(error.message)));
  }
  console.log(JSON.stringify(wrong));
}

main();
