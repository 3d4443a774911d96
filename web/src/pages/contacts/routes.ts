import { CollectionTag, Notebook } from '@element-plus/icons-vue'
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
  {
    name: 'contact-imports',
    path: 'contacts/imports',
    component: () => import('./ImportsPage.vue'),
    title: 'contacts.import.imports',
    operations: ['listContactImports'],
  },
  {
    name: 'erasures',
    path: 'contacts/erasures',
    component: () => import('./ErasuresPage.vue'),
    title: 'erasures.title',
    operations: ['listErasures'],
  },
  {
    name: 'erasure',
    path: 'contacts/erasures/:id(\\d+)',
    component: () => import('./ErasurePage.vue'),
    title: 'erasures.title',
    operations: ['getErasure'],
  },
  {
    name: 'tags',
    path: 'tags',
    component: () => import('./TagsPage.vue'),
    title: 'tags.title',
    operations: ['listTags'],
    nav: { section: 'messages', order: 45, icon: CollectionTag },
  },
]
