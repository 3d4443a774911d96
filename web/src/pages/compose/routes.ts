import { EditPen } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'compose',
    path: 'compose',
    component: () => import('./ComposePage.vue'),
    title: 'compose.title',
    operations: ['sendSms'],
    nav: { section: 'messages', order: 20, icon: EditPen },
  },
]
