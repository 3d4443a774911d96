// Texts in Chinese and English. Each page has one file of texts per language; the name of the file is the first part of its keys.
import { ref, shallowRef, watch } from 'vue'
import { createI18n } from 'vue-i18n'
import type { Language as ElementLocale } from 'element-plus/es/locale'
import { remember, remembered } from '@/composables/remember'

export type Language = 'zh' | 'en'

/** The shape of the English file of a page: every text of the Chinese file, and no other. */
export type Texts<T> = { [Key in keyof T]: T[Key] extends string ? string : Texts<T[Key]> }

const loaders = { zh: () => import('./zh'), en: () => import('./en') }

function preferred(): Language {
  const kept = remembered('language')
  if (kept === 'zh' || kept === 'en') return kept
  // The first language of the browser that the console has, as the server chooses it.
  const first = navigator.languages.find((name) => /^(zh|en)\b/i.test(name))
  return first?.toLowerCase().startsWith('zh') ? 'zh' : 'en'
}

export const language = ref<Language>(preferred())
/** The texts of Element Plus. */
export const elementLocale = shallowRef<ElementLocale>()

export const i18n = createI18n({
  legacy: false,
  locale: language.value,
  fallbackLocale: [],
  messages: {} as Record<string, never>,
  missing: (locale, key) => {
    console.error(`The text ${key} is missing in ${locale}.`)
  },
})

/** Loads the texts of a language and shows it. */
export async function useLanguage(name: Language): Promise<void> {
  const texts = await loaders[name]()
  i18n.global.setLocaleMessage(name, texts.messages as never)
  elementLocale.value = texts.element
  language.value = name
  i18n.global.locale.value = name
  document.documentElement.lang = name === 'zh' ? 'zh-CN' : 'en'
}

watch(language, (name) => remember('language', name))

/**
 * The text of a key, in components and outside. A number `n` chooses between the forms of a text ("no tasks | {n} task | {n} tasks"),
 * and is written with separators.
 */
export function t(key: string, values: Record<string, unknown> = {}): string {
  if (typeof values.n !== 'number') return i18n.global.t(key, values)
  return i18n.global.t(key, { ...values, n: new Intl.NumberFormat(language.value).format(values.n) }, values.n)
}

/** Whether a key has a text; for words of the server that a later version may add to. */
export const hasText = (key: string): boolean => (i18n.global as unknown as { te: (key: string) => boolean }).te(key)
