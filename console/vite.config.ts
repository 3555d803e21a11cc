// The build is what the server embeds: hashed names, nothing inlined (the server's policy is `default-src 'self'`), nothing that changes between two builds of the same source.
// What never changes is there compressed too, for the server to send to whoever takes it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const compressed: Plugin = {
  name: "compressed",
  apply: "build",
  writeBundle({ dir }, bundle) {
    for (const name of Object.keys(bundle).filter((name) => name.startsWith("assets/"))) {
      const path = join(dir ?? "", name);
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
    }
  },
};

export default defineConfig({
  base: "/",
  plugins: [compressed],
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8099" } },
});
