import { Setting } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'settings',
    path: 'settings',
    component: () => import('./SettingsPage.vue'),
    title: 'settings.title',
    operations: ['getSettings'],
    nav: { section: 'administration', order: 30, icon: Setting },
  },
]
