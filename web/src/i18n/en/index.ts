import element from 'element-plus/es/locale/lang/en'

const files = import.meta.glob<object>(['./*.ts', '!./index.ts'], { eager: true, import: 'default' })

export const messages = Object.fromEntries(Object.entries(files).map(([path, texts]) => [path.slice(2, -3), texts]))
export { element }
