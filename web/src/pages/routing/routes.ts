import { Share } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'routes',
    path: 'routes',
    component: () => import('./RoutesPage.vue'),
    title: 'routing.title',
    operations: ['listRoutes'],
    nav: { section: 'delivery', order: 20, icon: Share },
  },
]
