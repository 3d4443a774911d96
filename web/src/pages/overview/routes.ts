import { Odometer } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'overview',
    path: 'overview',
    component: () => import('./OverviewPage.vue'),
    title: 'overview.title',
    operations: ['getOverview'],
    nav: { section: 'watch', order: 10, icon: Odometer },
  },
]
