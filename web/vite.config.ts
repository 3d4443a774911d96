import { fileURLToPath } from 'node:url'
import vue from '@vitejs/plugin-vue'
import components from 'unplugin-vue-components/vite'
import { ElementPlusResolver } from 'unplugin-vue-components/resolvers'
import { defineConfig } from 'vite'

// LKSMS_SERVER is the server that `npm run dev` sends the requests of the console to.
const server = process.env.LKSMS_SERVER ?? 'http://127.0.0.1:8000'

// The policy with which the server sends the console (internal/transport/httpapi/console).
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

export default defineConfig({
  base: './', // the server puts the path before it into index.html
  plugins: [
    vue(),
    // Imports each Element Plus component that a template uses, with its styles. tsconfig.json names their types.
    components({ dts: false, dirs: [], resolvers: [ElementPlusResolver({ importStyle: 'css' })] }),
  ],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  define: {
    __VUE_OPTIONS_API__: true, // Element Plus has components that use it
    __VUE_PROD_DEVTOOLS__: false,
    __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: false,
    __VUE_I18N_LEGACY_API__: false,
    __VUE_I18N_FULL_INSTALL__: false,
    __INTLIFY_PROD_DEVTOOLS__: false,
    __INTLIFY_DROP_MESSAGE_COMPILER__: false,
  },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0, // the content security policy allows no fonts and scripts in data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 800,
  },
  server: {
    port: 5173,
    proxy: {
      '/api': { target: server, changeOrigin: false },
    },
  },
  preview: {
    port: 4173,
    headers: { 'Content-Security-Policy': policy },
    proxy: {
      '/api': { target: server, changeOrigin: false },
    },
  },
})
