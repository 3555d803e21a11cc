// The build is what the server embeds: hashed names, nothing inlined (the server's policy is `default-src 'self'`), nothing that changes between two builds of the same source.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8099" } },
});
