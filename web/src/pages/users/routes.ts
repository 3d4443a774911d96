import { User } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'users',
    path: 'users',
    component: () => import('./UsersPage.vue'),
    title: 'users.title',
    operations: ['listUsers'],
    nav: { section: 'administration', order: 20, icon: User },
  },
]
