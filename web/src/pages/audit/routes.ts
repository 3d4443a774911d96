import { Bell, Memo } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'audit',
    path: 'audit',
    component: () => import('./AuditPage.vue'),
    title: 'audit.title',
    operations: ['listAudit'],
    nav: { section: 'administration', order: 40, icon: Memo },
  },
  {
    name: 'events',
    path: 'events',
    component: () => import('./EventsPage.vue'),
    title: 'events.title',
    operations: ['listEvents'],
    nav: { section: 'administration', order: 45, icon: Bell },
  },
]
