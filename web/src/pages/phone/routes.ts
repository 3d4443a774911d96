import { Iphone } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'phone',
    path: 'phone',
    component: () => import('./PhonePage.vue'),
    title: 'phone.title',
    operations: ['claimTasksNow', 'reportTask'],
    nav: { section: 'messages', order: 70, icon: Iphone },
  },
]
