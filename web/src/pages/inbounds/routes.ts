import { Download } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'inbounds',
    path: 'inbounds',
    component: () => import('./InboundsPage.vue'),
    title: 'inbounds.title',
    operations: ['listInbounds'],
    nav: { section: 'messages', order: 66, icon: Download },
  },
]
