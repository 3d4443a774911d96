import { Notebook } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'contacts',
    path: 'contacts',
    component: () => import('./ContactsPage.vue'),
    title: 'contacts.title',
    operations: ['listContacts'],
    nav: { section: 'messages', order: 40, icon: Notebook },
  },
]
