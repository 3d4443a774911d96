import { Remove } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'blocks',
    path: 'blocks',
    component: () => import('./BlocksPage.vue'),
    title: 'blocks.title',
    operations: ['listBlocks'],
    nav: { section: 'messages', order: 17, icon: Remove },
  },
]
