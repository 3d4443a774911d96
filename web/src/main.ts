import { createApp } from 'vue'
import 'element-plus/theme-chalk/base.css'
import './styles/index.css'
import App from './App.vue'
import { i18n, language, useLanguage } from './i18n'
import { router } from './router'
import './composables/theme'

await useLanguage(language.value)
createApp(App).use(i18n).use(router).mount('#app')
