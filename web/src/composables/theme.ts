// Light or dark: as the system says, unless the viewer chose.
import { computed, ref, watch } from 'vue'
import { remember, remembered } from './remember'

export type Theme = 'system' | 'light' | 'dark'

const kept = remembered('theme')
export const theme = ref<Theme>(kept === 'light' || kept === 'dark' ? kept : 'system')

const system = matchMedia('(prefers-color-scheme: dark)')
const systemDark = ref(system.matches)
system.addEventListener('change', (event) => (systemDark.value = event.matches))

export const dark = computed(() => (theme.value === 'system' ? systemDark.value : theme.value === 'dark'))

watch(theme, (value) => remember('theme', value))
watch(
  dark,
  (value) => {
    document.documentElement.classList.toggle('dark', value)
    document.documentElement.classList.toggle('light', !value)
  },
  { immediate: true },
)
