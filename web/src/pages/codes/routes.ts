import { Key } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'codes',
    path: 'codes',
    component: () => import('./CodesPage.vue'),
    title: 'codes.title',
    operations: ['readVerificationStatistics'],
    nav: { section: 'watch', order: 35, icon: Key },
  },
]
