import { Document, Postcard } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'templates',
    path: 'templates',
    component: () => import('./TemplatesPage.vue'),
    title: 'templates.title',
    operations: ['listTemplates'],
    nav: { section: 'messages', order: 50, icon: Document },
  },
  {
    name: 'template',
    path: 'templates/:id(\\d+)',
    component: () => import('./TemplatePage.vue'),
    title: 'templates.template',
    operations: ['getTemplate'],
  },
  {
    name: 'default-contents',
    path: 'default-contents',
    component: () => import('./DefaultContentsPage.vue'),
    title: 'defaultContents.title',
    operations: ['listDefaultContents'],
    nav: { section: 'messages', order: 60, icon: Postcard },
  },
]
